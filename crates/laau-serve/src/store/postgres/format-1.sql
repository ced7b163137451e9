-- Format 1. Names are compared byte by byte; every body begins with a checksum of itself and of its key.
CREATE TABLE laau_serve.account (
    name text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL
);

CREATE TABLE laau_serve.file (
    digest text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL
);
-- Models do not get smaller.
ALTER TABLE laau_serve.file ALTER body SET STORAGE EXTERNAL;

CREATE TABLE laau_serve.api_key (
    id text COLLATE "C" PRIMARY KEY,
    body bytea NOT NULL
);

CREATE TABLE laau_serve.entry (
    account text COLLATE "C" NOT NULL,
    period bigint NOT NULL,
    number bigint NOT NULL,
    key text COLLATE "C",
    body bytea NOT NULL,
    PRIMARY KEY (account, period, number),
    UNIQUE (account, key, period)
);

-- The first period that is kept, while earlier ones are being deleted.
CREATE TABLE laau_serve.forgotten (
    account text COLLATE "C" PRIMARY KEY,
    before bigint NOT NULL
);

-- Who may write an account. Epochs are drawn from one sequence, so that a row may be deleted and no epoch comes twice.
CREATE TABLE laau_serve.lease (
    account text COLLATE "C" PRIMARY KEY,
    node text NOT NULL,
    address text NOT NULL,
    epoch bigint NOT NULL,
    expires timestamptz NOT NULL
);
-- Every renewal writes a row anew; room in the page keeps the index out of it.
ALTER TABLE laau_serve.lease SET (fillfactor = 50);
CREATE SEQUENCE laau_serve.epoch;

-- Deletes at most so many entries of forgotten periods of these accounts.
CREATE FUNCTION laau_serve.tidy(accounts text[], most bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    gone record;
    deleted bigint;
BEGIN
    FOR gone IN SELECT f.account, f.before FROM laau_serve.forgotten f WHERE f.account = ANY (accounts) LOOP
        DELETE FROM laau_serve.entry WHERE ctid = ANY (ARRAY(
            SELECT e.ctid FROM laau_serve.entry e
            WHERE e.account = gone.account AND e.period < gone.before
            ORDER BY e.account, e.period, e.number LIMIT most));
        GET DIAGNOSTICS deleted = ROW_COUNT;
        IF deleted = most THEN
            RETURN;
        END IF;
        most := most - deleted;
        DELETE FROM laau_serve.forgotten f WHERE f.account = gone.account;
    END LOOP;
END $$;

-- Writes a batch, all of it or nothing. An epoch that is not valid any more raises LF001 with the account as its message.
CREATE FUNCTION laau_serve.commit(
    claimed text[], epochs bigint[],
    accounts text[], periods bigint[], numbers bigint[], keys text[], entries bytea[],
    kinds text[], names text[], bodies bytea[], befores bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    stale text;
BEGIN
    -- Whoever wants to take an account over waits until this batch is written. The order keeps two batches from waiting
    -- for each other.
    PERFORM FROM laau_serve.lease l WHERE l.account = ANY (claimed) ORDER BY l.account FOR UPDATE;
    SELECT c.account INTO stale FROM unnest(claimed, epochs) AS c (account, epoch)
        WHERE NOT EXISTS (SELECT FROM laau_serve.lease l WHERE l.account = c.account AND l.epoch = c.epoch)
        LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LF001', MESSAGE = stale;
    END IF;

    IF cardinality(accounts) > 0 THEN
        INSERT INTO laau_serve.entry (account, period, number, key, body)
            SELECT * FROM unnest(accounts, periods, numbers, keys, entries);
    END IF;

    FOR i IN 1 .. cardinality(kinds) LOOP
        CASE kinds[i]
        WHEN 'account' THEN
            INSERT INTO laau_serve.account VALUES (names[i], bodies[i])
                ON CONFLICT (name) DO UPDATE SET body = EXCLUDED.body;
        WHEN 'file' THEN
            INSERT INTO laau_serve.file VALUES (names[i], bodies[i]) ON CONFLICT (digest) DO NOTHING;
        WHEN 'key' THEN
            INSERT INTO laau_serve.api_key VALUES (names[i], bodies[i])
                ON CONFLICT (id) DO UPDATE SET body = EXCLUDED.body;
        WHEN 'revoke' THEN
            DELETE FROM laau_serve.api_key WHERE id = names[i];
        WHEN 'forget' THEN
            INSERT INTO laau_serve.forgotten VALUES (names[i], befores[i])
                ON CONFLICT (account) DO UPDATE SET before = greatest(laau_serve.forgotten.before, EXCLUDED.before);
        END CASE;
    END LOOP;

    -- The log shrinks faster than it grows, and no batch takes long.
    PERFORM laau_serve.tidy(claimed, 256 + 2 * cardinality(accounts));
END $$;
