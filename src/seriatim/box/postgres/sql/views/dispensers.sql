-- Purpose: what each location's dispenser gives next, and how far what it gave has left the queues.
-- Index: tickets_pkey, one row a location. The entries are read whole, for how many there are and which is the oldest.
SELECT location, epoch, next_number, last_number, last_sent_epoch, last_sent, in_queue FROM {schema}.dispensers ORDER BY location
