"""`lakebed completion SHELL`: prints a completion script for a shell.

For each completion, the script starts `lakebed` with an environment variable that names the shell.
`lakebed` then runs no command: `answer` prints the candidates. Names in the store (topics, buckets)
are not completed, because that would open the store. If there are no candidates, the shell
completes file names.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Final

import typer
from typer._completion_classes import completion_init
from typer.completion import shell_complete

from lakebed.cli.invocation import invocation
from lakebed.cli.program import COMPLETE_VARIABLE, PROGRAM
from lakebed.cli.report import Text, Value

_BASH = f"""\
_lakebed_completion() {{
    local IFS=$'\\n'
    COMPREPLY=($(env COMP_WORDS="${{COMP_WORDS[*]}}" COMP_CWORD="$COMP_CWORD" \\
        {COMPLETE_VARIABLE}=complete_bash "$1" 2>/dev/null))
}}
complete -o default -F _lakebed_completion {PROGRAM}
"""

# Sourced, it registers a function; in a folder of $fpath, it is that function.
_ZSH = f"""\
#compdef {PROGRAM}
_lakebed_completion() {{
    eval "$(env _TYPER_COMPLETE_ARGS="${{words[1,$CURRENT]}}" \\
        {COMPLETE_VARIABLE}=complete_zsh "${{words[1]}}" 2>/dev/null)"
}}
if [[ "$zsh_eval_context[-1]" == loadautofunc ]]; then
    _lakebed_completion "$@"
else
    compdef _lakebed_completion {PROGRAM}
fi
"""

_FISH = f"""\
function __lakebed_completion
    env {COMPLETE_VARIABLE}=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] \\
        _TYPER_COMPLETE_ARGS=(commandline -cp) {PROGRAM} 2>/dev/null
end
complete --command {PROGRAM} --no-files --condition "__lakebed_completion is-args" \\
    --arguments "(__lakebed_completion get-args)"
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Shell(Enum):
    """The supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS: Final = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


@app.command()
def completion(
    context: typer.Context,
    shell: Annotated[
        Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell to print the script for.")
    ],
) -> None:
    """Print a completion script for a shell.

    \b
    Examples:
      Enable completion in bash:
        eval "$(lakebed completion bash)"
      Install it for zsh:
        lakebed completion zsh > ~/.zfunc/_lakebed
      Install it for fish:
        lakebed completion fish > ~/.config/fish/completions/lakebed.fish
    """
    run = invocation(context)
    run.place.refuse_if_named(run.command)
    script = SCRIPTS[shell]
    run.output.show(Value("shell", shell), Value("script", script), Text(*script.splitlines()))


def answer(command: Any, instruction: str) -> int:
    """Prints the candidates for the word at the cursor. Returns the exit code.

    `command` is the top-level command, and `instruction` the value of the environment variable
    `COMPLETE_VARIABLE`, such as `complete_bash`.
    """
    completion_init()
    return shell_complete(command, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
