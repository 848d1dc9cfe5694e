"""`lakebed completion SHELL`: a script with which a shell completes commands and options.

On every tab the script starts the program again, with a variable saying which shell asks; `answer`
then prints what fits, and nothing is run. Names of the store (its topics, its buckets) are not
completed: that would open it. Where nothing fits, the shell offers files.
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

# Sourced it registers a function; found in a folder of $fpath it is that function.
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

app = typer.Typer(add_completion=False)


class Shell(Enum):
    """Those that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS: Final = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


@app.command()
def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(help="Who completes.")],
) -> None:
    """Print a script with which a shell completes commands and options.

    \b
    eval "$(lakebed completion bash)"
    lakebed completion zsh > ~/.zfunc/_lakebed
    lakebed completion fish > ~/.config/fish/completions/lakebed.fish
    """
    run = invocation(context)
    run.place.refuse_if_named(run.command)
    script = SCRIPTS[shell]
    run.output.show(Value("shell", shell), Value("script", script), Text(*script.splitlines()))


def answer(command: Any, instruction: str) -> int:
    """Print what could stand where the cursor is; `command` is the top one. The exit code."""
    completion_init()
    return shell_complete(command, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
