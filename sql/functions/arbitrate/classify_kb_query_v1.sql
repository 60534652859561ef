-- Everything is read from the folded text by explicit ranges and lists, as analyze_kb_text_v1 does: nothing depends on the locale, nor on the
-- organisation's language. The lists are folded: no accents, no capitals.
CREATE FUNCTION kbsearch.classify_kb_query_v1(p_query_text text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, kbsearch, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    -- a word that stands at the beginning of questions, and hardly anywhere else
    c_first constant text COLLATE "C" := ' '
        'what whats who whom whose which when where why how hows was wer wen wem wessen welche welcher welches welchen welchem wann wo woher wohin '
        'warum wieso weshalb wie womit wofur wozu woruber quoi qui que qu quel quelle quels quelles quand ou pourquoi combien lequel laquelle est-ce '
        'quien quienes cual cuales cuando donde como cuanto cuanta cuantos cuantas porque perche quale quali cosa quanto quanti quante quem qual '
        'quais onde wat welke welk wanneer waar waarom hoe hoeveel vad vem vilken vilket vilka nar varfor hur hvad hvem hvilken hvilket hvilke '
        'hvornar hvor hvorfor hvordan hva mika mita kuka milloin missa mista mihin miksi miten kuinka kto jaki jaka jakie ktory ktora ktore kiedy '
        'gdzie skad dlaczego jak ile czy kdo jaky jake kdy kde kolik что кто какои какая какое какие когда где куда откуда почему зачем как сколько '
        'чеи що хто якии яка яке які коли де звідки чому як скільки чи hangi nerede nereye neden nicin niye nasil kac τι ποιοσ ποια ποιο ποτε που πωσ '
        'γιατι ποσο ποσα ما ماذا متى أين كيف لماذا هل كم מה מי איך למה מדוע מתי איפה האם כמה چه چرا چگونه کجا آیا چطور apa siapa kapan mengapa kenapa '
        'bagaimana berapa ';
    -- one that does so in longer questions
    c_first_of_four constant text COLLATE "C" := ' '
        'is are am was were do does did can could should would will shall may might must has have had isn don doesn ist sind kann konnen darf muss '
        'soll hat haben gibt comment peut-on puis-je puedo puede hay posso puo come dove chi co ne kim var proc ';
    c_last_of_three constant text COLLATE "C" := ' mi mu gi nao sao khong ';
    c_anywhere constant text COLLATE "C" := ' क्या कैसे क्यों कब कहाँ कौन कितना कितने कितनी কি কী কেন কিভাবে কীভাবে কোথায় কখন ';
    v_text text COLLATE "C" := translate(
        kbsearch.fold_kb_text_v1(regexp_replace(coalesce(p_query_text, '') COLLATE "C", '(^|[[:space:]])[\u2010-\u2015\u2212]+', '\1', 'g')),
        U&'\201C\201D\201E\201F\00AB\00BB\0660\0661\0662\0663\0664\0665\0666\0667\0668\0669\06F0\06F1\06F2\06F3\06F4\06F5\06F6\06F7\06F8\06F9\0966\0967\0968\0969\096A\096B\096C\096D\096E\096F',
        '""""""012345678901234567890123456789'
    );
    v_words text[] COLLATE "C";
    v_count numeric;
    v_identifiers bigint;
BEGIN
    IF strpos(v_text, '"') > 0 AND v_text ~ '(^|[^-])"[^"]*[^\u0001-\u002F\u003A-\u0040\u005B-\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF][^"]*"' THEN
        RETURN 'quoted';
    END IF;
    -- joiners at the ends join nothing; what a minus excludes is not asked for
    v_words := ARRAY(
        SELECT w.word
        FROM (
            SELECT btrim(r.run, '-_./@:+#&') AS word, r.n
            FROM string_to_table(regexp_replace(v_text, '[\u0001-\u0022\u0024\u0025\u0027-\u002A\u002C\u003B-\u003F\u005B-\u005E\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]+', ' ', 'g'), ' ') WITH ORDINALITY AS r (run, n)
            WHERE r.run <> '' AND r.run !~~ '-%'
        ) AS w
        WHERE w.word <> ''
        ORDER BY w.n
    );
    IF v_words = '{}' THEN
        RETURN 'empty';
    END IF;
    SELECT
        sum(CASE
            WHEN w.word ~ '^[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF]' THEN ceil(char_length(w.word) / 4.0)
            WHEN w.word ~ '^[\u2E80-\u2FDF\u3005-\u3007\u3021-\u3029\u3031-\u303C\u3040-\u30FA\u30FC-\u312F\u31A0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\uFF66-\uFF9F\U0001B000-\U0001B16F\U00020000-\U0003FFFF]'
                THEN ceil(char_length(w.word) / 2.0)
            ELSE 1
        END),
        count(*) FILTER (WHERE CASE
            WHEN w.word ~ '[_@]' THEN true
            -- a dot or a colon between names, a path, an address
            WHEN w.word ~ '[^\u0001-\u002F\u003A-\u0040\u005B-\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]{2}[.][^.]*[^\u0001-\u002F\u003A-\u0040\u005B-\u0060\u007B-\u00A9\u00AB-\u00B4\u00B6-\u00B9\u00BB-\u00BF\u00D7\u00F7\u02C2-\u02C5\u02D2-\u02DF\u037E\u0387\u055A-\u055F\u0589\u058A\u05BE\u05C0\u05C3\u05F3\u05F4\u0600-\u060F\u061B-\u061F\u066A-\u066D\u06D4\u0964\u0965\u0970\u0E4F\u0E5A\u0E5B\u104A-\u104F\u10FB\u1361-\u1368\u17D4-\u17DA\u1800-\u180A\u1FBD-\u1FC1\u2000-\u206F\u20A0-\u20CF\u2100-\u2BFF\u2E00-\u2E7F\u2FF0-\u2FFF\u3000-\u3004\u3008-\u3020\u302A-\u3030\u303D-\u303F\u30FB\uA4FE\uA4FF\uA830-\uA839\uE000-\uF8FF\uFD3E\uFD3F\uFE00-\uFE6F\uFF00-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65\uFFE0-\uFFFF\U0001F000-\U0001FAFF\U000E0000-\U0010FFFF]{2}|[^0-9]:+[^0-9]' AND w.word !~ '^[0-9.,:/+-]+$' THEN true
            -- a number with its unit or ending
            WHEN w.word ~ '^[0-9]+([.,/-][0-9]+)*-?[a-z\u00B5\u03BC]{1,3}$' THEN false
            WHEN w.word ~ '[0-9]' AND w.word ~ '[a-z\u03B1-\u03C9\u0430-\u045F]' THEN char_length(translate(w.word, '-_./@:+#&', '')) >= 4
            WHEN w.word ~ '^[0-9./:+-]+$' THEN char_length(translate(w.word, './:+-', '')) >= 5
            ELSE false
        END)
    INTO v_count, v_identifiers
    FROM unnest(v_words) AS w (word);
    RETURN CASE
        WHEN v_count >= 2 AND strpos(c_first, ' ' || v_words[1] || ' ') > 0 THEN 'question'
        WHEN v_identifiers * 2 >= cardinality(v_words) THEN 'identifier'
        WHEN v_count >= 8
            OR v_text ~ '[?\u055E\u061F\u1367]["'')\]]*([[:space:]]|$)|\u00BF' OR strpos(p_query_text COLLATE "C", U&'\037E') > 0
            OR v_text ~ '什么|什麼|怎么|怎麼|怎样|怎樣|如何|哪|谁|誰|几个|多少|吗|嗎|呢|是否|何时|何時|なぜ|どう|どこ|いつ|だれ|どの|どれ|いくら|ですか|ますか|何を|何が|何の|何か|무엇|어떻게|왜|언제|어디|누가|누구|얼마|อะไร|อย่างไร|ยังไง|ทําไม|ที่ไหน|เมื่อไร|เมื่อไหร่|ใคร|ไหม|หรือไม่|เท่าไร|เท่าไหร่|(\uAE4C|\uAC00\uC694|\uB098\uC694|\u304B)$'
            OR (v_count >= 4 AND strpos(c_first_of_four, ' ' || v_words[1] || ' ') > 0)
            OR (v_count >= 3 AND strpos(c_last_of_three, ' ' || v_words[cardinality(v_words)] || ' ') > 0)
            OR EXISTS (SELECT FROM unnest(v_words) AS w (word) WHERE strpos(c_anywhere, ' ' || w.word || ' ') > 0)
            THEN 'question'
        ELSE 'keywords'
    END;
END
$$;
COMMENT ON FUNCTION kbsearch.classify_kb_query_v1(text) IS
'The class of a question, by which an arbitration policy may have rules of its own. Depends on nothing but the text.

Arguments:
p_query_text: The question.

Returns: the first that holds. quoted: it has a phrase in quotation marks. empty: it has no word. question: it begins with a question word and has another word. identifier: at least half of its words are identifiers: letters with digits, 4 or more of them (but not a number with an ending of up to 3 letters, as in 500mg); numbers of 5 or more digits; names joined by _, @, a dot or a colon. question: it ends in a question mark, has 8 words or more, or is built like a question in one of some 25 languages (a verb first and 4 words or more, a particle at its end or within). Else keywords. In scripts without spaces two characters count as a word, in those of Thai, Lao, Khmer and Burmese four.

Errors: none.';
