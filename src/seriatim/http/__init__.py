"""The face over HTTP: other languages publish messages, and work off the queues under leases.

It calls the asyncio face of the box, and has no SQL. It imports what the extra `http` installs.
"""

from seriatim.extras import need

need("http")
