-- What a session store keeps beside its rows on PostgreSQL, after rows were copied: words are indexed again by the next search.

UPDATE tk_meta SET value = '0' WHERE key = 'indexed';
