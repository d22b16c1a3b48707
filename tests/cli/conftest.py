import pytest
from click.testing import CliRunner

from seriatim.cli.main import main


@pytest.fixture
def call(box):
    """Calls a command about the box; `answer` is what a person types."""

    def calling(*words, code=0, answer=None):
        result = CliRunner().invoke(main, [*map(str, words), "--dsn", box.dsn, "--schema", box.schema], input=answer)
        assert result.exit_code == code, result.output
        return result

    return calling
