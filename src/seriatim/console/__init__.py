"""The console: pages in a browser that show why something stands still, and mend it.

Only this room imports what the extra `console` installs. It calls `seriatim.operations` and has no SQL.
"""

from seriatim.extras import need

need("console")
