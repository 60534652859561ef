CREATE FUNCTION kbsearch.escape_kb_html_v1(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT replace(replace(replace(replace(replace(p_text, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), chr(39), '&#39;');
END;
COMMENT ON FUNCTION kbsearch.escape_kb_html_v1(text) IS 'The text for the inside of an HTML element or a quoted attribute: & < > " and the apostrophe as references.';
