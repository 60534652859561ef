-- Gold sets: questions of an organisation's users, and which of its articles answer them. Read by evaluations only, never by searches.

CREATE TABLE kbsearch.kb_gold_sets (
    org_id bigint NOT NULL REFERENCES kbsearch.organizations (id) ON DELETE CASCADE,
    name text NOT NULL CHECK (name <> '' AND octet_length(name) <= 200),
    description text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, name)
);
COMMENT ON TABLE kbsearch.kb_gold_sets IS 'A set of questions with judgements, to measure rankings by; of no meaning to searches.';
COMMENT ON COLUMN kbsearch.kb_gold_sets.org_id IS 'The organisation; never changed.';
COMMENT ON COLUMN kbsearch.kb_gold_sets.name IS 'Name.';
COMMENT ON COLUMN kbsearch.kb_gold_sets.description IS 'For people.';
COMMENT ON COLUMN kbsearch.kb_gold_sets.created_at IS 'When it was made.';

CREATE TABLE kbsearch.kb_gold_questions (
    org_id bigint NOT NULL,
    set_name text NOT NULL,
    ref text NOT NULL CHECK (ref <> '' AND octet_length(ref) <= 200),
    question text NOT NULL CHECK (question <> '' AND octet_length(question) <= 32768),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, set_name, ref),
    FOREIGN KEY (org_id, set_name) REFERENCES kbsearch.kb_gold_sets (org_id, name) ON DELETE CASCADE ON UPDATE CASCADE
);
COMMENT ON TABLE kbsearch.kb_gold_questions IS 'A question of a gold set.';
COMMENT ON COLUMN kbsearch.kb_gold_questions.org_id IS 'The organisation; never changed.';
COMMENT ON COLUMN kbsearch.kb_gold_questions.set_name IS 'The gold set.';
COMMENT ON COLUMN kbsearch.kb_gold_questions.ref IS 'Its name in the set, and in what is exported of it: a query id.';
COMMENT ON COLUMN kbsearch.kb_gold_questions.question IS 'What is asked, as a user would: at most 32,768 bytes.';
COMMENT ON COLUMN kbsearch.kb_gold_questions.created_at IS 'When it was added.';

CREATE TABLE kbsearch.kb_gold_judgements (
    org_id bigint NOT NULL,
    set_name text NOT NULL,
    question_ref text NOT NULL,
    article_id bigint NOT NULL,
    grade integer NOT NULL DEFAULT 1 CHECK (grade >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, set_name, question_ref, article_id),
    FOREIGN KEY (org_id, set_name, question_ref) REFERENCES kbsearch.kb_gold_questions (org_id, set_name, ref) ON DELETE CASCADE ON UPDATE CASCADE,
    FOREIGN KEY (org_id, article_id) REFERENCES kbsearch.kb_articles (org_id, id) ON DELETE CASCADE
);
-- an article that is deleted looks for its judgements
CREATE INDEX kb_gold_judgements_article ON kbsearch.kb_gold_judgements (org_id, article_id);
COMMENT ON TABLE kbsearch.kb_gold_judgements IS
'How well an article answers a question of a gold set. An article without a judgement counts as one that does not answer; a judgement goes with its article.';
COMMENT ON COLUMN kbsearch.kb_gold_judgements.org_id IS 'The organisation; never changed.';
COMMENT ON COLUMN kbsearch.kb_gold_judgements.set_name IS 'The gold set.';
COMMENT ON COLUMN kbsearch.kb_gold_judgements.question_ref IS 'The question.';
COMMENT ON COLUMN kbsearch.kb_gold_judgements.article_id IS 'The article that was judged.';
COMMENT ON COLUMN kbsearch.kb_gold_judgements.grade IS '0: does not answer; 1 and more: answers, the better the more.';
COMMENT ON COLUMN kbsearch.kb_gold_judgements.created_at IS 'When it was judged.';
