"""One screen of `ckpt tui --serve`: `ckpt` with arguments that its command line does not show."""

import json
import os
import sys

from ckpt_cli.__main__ import main
from ckpt_cli.tui.serving import SERVED

if __name__ == "__main__":
    # The variable stays: the command knows by it that its screen is served.
    sys.argv[1:] = json.loads(os.environ[SERVED])
    main()
