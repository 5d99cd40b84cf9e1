-- The whole store: a queue of leases in a table, a sequence that numbers them, and one function for each verb.
-- A call of a function is one transaction and one round trip: if a client dies, no operation is left half done.
--
-- Everything is in the first schema of `search_path`.

CREATE TABLE IF NOT EXISTS entries (
    token    bigint PRIMARY KEY,          -- the order of the queue (C1)
    name     bytea NOT NULL,              -- text cannot hold every name
    entry    text NOT NULL,
    kind     text NOT NULL,
    permits  bigint NOT NULL CHECK (permits BETWEEN 1 AND size),
    size     bigint NOT NULL,             -- the limit; LIMIT is a reserved word of SQL
    expires  timestamptz NOT NULL,
    admitted boolean NOT NULL,
    channel  text NOT NULL,               -- where its client listens
    label    bytea,
    hash     bigint NOT NULL GENERATED ALWAYS AS (hashtextextended(encode(name, 'hex'), 0)) STORED
);

-- An index cannot contain long names, so it has their hashes. A query by hash compares the name, too.
CREATE INDEX IF NOT EXISTS entries_of_a_name ON entries (hash, token);

-- Entries that left while a request to create them was in doubt. A late request finds the tombstone, and creates nothing (PR08).
CREATE TABLE IF NOT EXISTS tombstones (
    entry        text PRIMARY KEY,
    kept_until   timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS tombstones_to_forget ON tombstones (kept_until);

-- Tokens grow even across the loss of all data, unless the clock was set back (C2).
DO $$
BEGIN
    IF to_regclass('tokens') IS NULL THEN
        EXECUTE format('CREATE SEQUENCE tokens START %s', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION hash_of(the_name bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(encode(the_name, 'hex'), 0) $$;

CREATE OR REPLACE FUNCTION microseconds(span interval) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT (extract(epoch FROM span) * 1000000)::bigint $$;

-- The start of every verb: locks the queue until the transaction ends, and removes expired entries.
-- Returns the time that decides which entries have expired. It is read after the lock is taken: before, it could be out of date (PR06).
CREATE OR REPLACE FUNCTION begin_verb(the_name bytea) RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hash_of(the_name));
    now := clock_timestamp();
    DELETE FROM entries WHERE hash = hash_of(the_name) AND name = the_name AND expires <= now;
    RETURN now;
END $$;

-- The end of every verb: admits all entries that now fit, and notifies each of them when the transaction is committed, except the
-- one that gets the answer (PR11). The rule is that of `lock_core::admission::admitted`.
CREATE OR REPLACE FUNCTION end_verb(the_name bytea, answered text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    it entries;
    taken bigint := 0;
BEGIN
    FOR it IN SELECT * FROM entries WHERE hash = hash_of(the_name) AND name = the_name ORDER BY token LOOP
        taken := taken + it.permits;
        EXIT WHEN taken > it.size;
        CONTINUE WHEN it.admitted;
        UPDATE entries SET admitted = true WHERE token = it.token;
        IF it.entry IS DISTINCT FROM answered THEN
            PERFORM pg_notify(it.channel, it.entry || ' ' || it.token);
        END IF;
    END LOOP;
END $$;

-- `again` is the token of the place to look from; without one, the entry may be created.
CREATE OR REPLACE FUNCTION enter(
    the_name bytea, the_entry text, the_kind text, the_permits bigint, the_size bigint, ttl bigint, the_label bytea,
    again bigint, stays boolean, the_channel text,
    OUT standing text, OUT token bigint, OUT ahead bigint, OUT holder bytea, OUT look_again bigint,
    OUT found_kind text, OUT found_size bigint
) LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz := begin_verb(the_name);
    lease_end timestamptz := now + ttl * interval '1 microsecond';
    me entries;
    taken bigint;
BEGIN
    SELECT * INTO me FROM entries e
        WHERE e.hash = hash_of(the_name) AND e.name = the_name AND e.entry = the_entry;
    IF again IS NOT NULL AND me.token IS DISTINCT FROM again THEN
        standing := 'gone';
    ELSIF me.token IS NOT NULL THEN
        UPDATE entries e SET expires = greatest(e.expires, lease_end) WHERE e.token = me.token;
    ELSIF EXISTS (SELECT FROM tombstones t WHERE t.entry = the_entry AND t.kept_until > now) THEN
        standing := 'gone';
    ELSE
        SELECT coalesce(sum(e.permits), 0), min(e.kind), min(e.size) INTO taken, found_kind, found_size FROM entries e
            WHERE e.hash = hash_of(the_name) AND e.name = the_name;
        IF found_kind <> the_kind OR found_size <> the_size THEN
            standing := 'mismatch';
        ELSIF taken + the_permits > the_size AND NOT stays THEN
            standing := 'busy';
        ELSE
            INSERT INTO entries VALUES (nextval('tokens'), the_name, the_entry, the_kind, the_permits, the_size,
                lease_end, taken + the_permits <= the_size, the_channel, the_label) RETURNING * INTO me;
        END IF;
    END IF;
    PERFORM end_verb(the_name, the_entry);
    IF standing IS NULL THEN
        token := me.token;
        SELECT CASE WHEN e.admitted THEN 'admitted' ELSE 'waiting' END INTO standing FROM entries e WHERE e.token = me.token;
        -- It expired meanwhile, and was removed by sweep().
        standing := coalesce(standing, 'gone');
    END IF;
    IF standing = 'waiting' THEN
        SELECT * INTO ahead, holder, look_again FROM view_from(me, now);
    END IF;
END $$;

-- The answer to a waiter: how many entries are ahead, the label of the first, and after how many microseconds the first lease of its blockers
-- ends. Blockers are the nearest entries ahead whose permits, with its own, exceed the limit (PR15).
CREATE OR REPLACE FUNCTION view_from(me entries, now timestamptz, OUT ahead bigint, OUT holder bytea, OUT look_again bigint)
LANGUAGE sql AS $$
    SELECT count(*), (array_agg(label ORDER BY token))[1],
        microseconds(min(expires) FILTER (WHERE between_us + me.permits <= me.size) - now)
    FROM (
        SELECT token, label, expires, coalesce(sum(permits) OVER (
            ORDER BY token DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS between_us
        FROM entries WHERE hash = me.hash AND name = me.name AND token < me.token
    ) AS those_ahead
$$;

-- One answer for each lease. The locks are taken in one order, so that two batches never wait for each other.
CREATE OR REPLACE FUNCTION renew(names bytea[], the_entries text[], the_tokens bigint[], ttls bigint[]) RETURNS boolean[]
LANGUAGE plpgsql AS $$
DECLARE
    lease record;
    now timestamptz;
    renewed boolean[];
BEGIN
    FOR lease IN
        SELECT * FROM unnest(names, the_entries, the_tokens, ttls) WITH ORDINALITY AS l (name, entry, token, ttl, place)
        ORDER BY hash_of(name)
    LOOP
        now := begin_verb(lease.name);
        UPDATE entries e SET expires = greatest(e.expires, now + lease.ttl * interval '1 microsecond')
            WHERE e.token = lease.token AND e.name = lease.name AND e.entry = lease.entry AND e.admitted;
        renewed[lease.place] := FOUND;
        PERFORM end_verb(lease.name, NULL);
    END LOOP;
    RETURN renewed;
END $$;

-- Returns whether the entry was there. `doubt`: for how long a tombstone stops a late request to create it. `evicted`: an operator
-- removes it, so its client is notified.
CREATE OR REPLACE FUNCTION leave(the_name bytea, the_entry text, doubt bigint, evicted boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz := begin_verb(the_name);
    its_channel text;
BEGIN
    IF doubt IS NOT NULL THEN
        INSERT INTO tombstones VALUES (the_entry, now + doubt * interval '1 microsecond')
            ON CONFLICT (entry) DO UPDATE SET kept_until = excluded.kept_until;
    END IF;
    DELETE FROM entries WHERE hash = hash_of(the_name) AND name = the_name AND entry = the_entry
        RETURNING channel INTO its_channel;
    IF evicted AND its_channel IS NOT NULL THEN
        PERFORM pg_notify(its_channel, the_entry);
    END IF;
    PERFORM end_verb(the_name, NULL);
    IF doubt IS NOT NULL THEN
        -- At the end, so that the locks on tombstones are held only briefly.
        PERFORM forget_tombstones();
    END IF;
    RETURN its_channel IS NOT NULL;
END $$;

-- For people.
CREATE OR REPLACE FUNCTION show(the_name bytea) RETURNS TABLE (
    entry text, kind text, permits bigint, size bigint, admitted boolean, token bigint, lease_left bigint, label bytea
) LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz := begin_verb(the_name);
BEGIN
    PERFORM end_verb(the_name, NULL);
    RETURN QUERY SELECT e.entry, e.kind, e.permits, e.size, e.admitted, e.token, microseconds(e.expires - now), e.label
        FROM entries e WHERE e.hash = hash_of(the_name) AND e.name = the_name ORDER BY e.token;
END $$;

-- Removes tombstones that no late request can need any more. The time is that of the statement: a condition on a clock that goes on could not
-- use the index.
CREATE OR REPLACE FUNCTION forget_tombstones() RETURNS void
LANGUAGE sql AS $$
    DELETE FROM tombstones WHERE entry IN (
        SELECT entry FROM tombstones WHERE kept_until <= statement_timestamp() FOR UPDATE SKIP LOCKED);
$$;

-- Removes expired entries, also of names that no client uses any more. It is called for each new connection and by list(). Rows that
-- another transaction has locked are left to it.
CREATE OR REPLACE FUNCTION sweep() RETURNS void
LANGUAGE sql AS $$
    DELETE FROM entries WHERE token IN (
        SELECT token FROM entries WHERE expires <= clock_timestamp() FOR UPDATE SKIP LOCKED);
    SELECT forget_tombstones();
$$;

CREATE OR REPLACE FUNCTION list(prefix bytea) RETURNS SETOF bytea
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sweep();
    RETURN QUERY SELECT DISTINCT name FROM entries
        WHERE substr(name, 1, length(prefix)) = prefix AND expires > clock_timestamp() ORDER BY name;
END $$;
