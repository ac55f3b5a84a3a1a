-- Version 9. Words of tasks: where a search over tasks looks. They stay until their run goes.
-- Processes of version 8 go on beside it; the words of what they drive until they are replaced are not written.

CREATE TABLE task_words (
    ws   text COLLATE "C" NOT NULL,
    run  uuid NOT NULL,
    kind text COLLATE "C" NOT NULL,
    word text COLLATE "C" NOT NULL,
    PRIMARY KEY (ws, run, kind, word)
);
CREATE INDEX task_words_found ON task_words (ws, kind, word, run);

-- What is there already tells of nothing: it is looked through.
INSERT INTO task_words (ws, run, kind, word) SELECT ws, id, 'untold', '' FROM runs WHERE namespace = 'conductor';
