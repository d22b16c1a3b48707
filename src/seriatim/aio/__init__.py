"""The asyncio face of a message box: the same methods as coroutines, made in threads; no verb is written twice."""
