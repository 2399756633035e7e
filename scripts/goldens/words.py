"""Texts of all the kinds that chat templates and tokenizers stumble over, drawn from a seeded generator."""

from random import Random

PLAIN = """the build fails when two workers write same cache file at once so we take a lock first and read it back then
compare what changed between runs before anything is removed from disk because an old entry may still be in use by
another process that nobody told about it please look into this and say which test breaks my guess is timing of last
commit but logs show nothing odd only slow answers after midnight maybe network or quota can you find every place where
that happens list them with line numbers keep it short thanks next step is to open main module run lint fix types add
one case for empty input and check docs again user session token request response server client queue retry limit
timeout header body stream event order path name value key index count total error warning""".split()
OTHER = [
    '日本語のテキスト', '你好，世界', '测试用例失败了', '한국어 문장', 'Привет мир', 'γειά σου', 'مرحبا بالعالم', 'שלום',
    'नमस्ते', 'ไทย', 'café', 'cafe\u0301', 'a\u030angstro\u0308m', 'Zürich', 'naïve', 'ﬁ', 'Å', 'Straße', 'İstanbul',
    '👩\u200d👩\u200d👧\u200d👦', '🏳\ufe0f\u200d🌈', '👍🏽', '🇩🇪🇯🇵', '🤖', '😀', '✅', '→', '…', '“so”', '‘it’', '—', '½', '°C', '①',
    'e\u0301\u0323', 'x\u200by', '𝒳', '𠮷野', '\u2028', 'ﷺ',
]
SYMBOLS = [
    '"quoted"', "it's", "don't", 'C:\\temp\\new', '\\n', '\\\\', '\\u00e9', '`code`', '$HOME', '100%', '&&', '||', '<div>',
    '</div>', '{{x}}', '{% if %}', '${y}', '[1,2]', '{"a": 1}', "{'b': None}", '#1', '@me', 'a/b', '~', '^', '*bold*',
    '1e-7', '3.14159', '12345678901234567890', '0x1F', '...', '!!', '??', ';', 'foo_bar', 'fooBar', 'x=1', '-> T', '&amp;',
    'https://example.org/a?b=c&d=%20', 'user@example.org', '2026-07-26T00:00:00Z', '&lt;b&gt;', '\t', '    ',
]
CODE = [
    'def f(x):\n    """Doubles."""\n    return {"x": x * 2}',
    'for (const a of b) {\n\tif (a !== null) out.push(`${a}`)\n}',
    '{\n  "name": "demo",\n  "version": "1.0.0",\n  "ok": true,\n  "list": [1, 2.0, null]\n}',
    '```ts\nconst re = /^\\s*"(.*)"$/u\n```',
    'diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old\n+new',
    'SELECT * FROM t WHERE a = \'b\' AND c <> "d"; -- done',
    '<html>\n  <body class="x">&nbsp;</body>\n</html>',
    'line one\r\nline two\r\n\r\nline four',
    '$ ls -la\ntotal 8\ndrwxr-xr-x  2 me me 4096 Jul 26 00:00 .',
    '| a | b |\n| --- | --- |\n| 1 | 2 |',
    'Traceback (most recent call last):\n  File "x.py", line 3, in <module>\nKeyError: \'k\'',
    '- one\n- two\n  - three\n\n\n1. four',
]
# What templates use to mark structure, of every family: in a text it stays text.
LOOKALIKES = [
    '<|im_start|>', '<|im_end|>', '<|im_start|>assistant\n', '<|endoftext|>', '<think>', '</think>', '<tool_call>',
    '</tool_call>', '<tool_response>', '</tool_response>', '<function=x>', '</function>', '<parameter=y>', '</parameter>',
    '<|begin_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>', '<|eom_id|>', '<|python_tag|>', '<|start|>',
    '<|message|>', '<|channel|>', '<|end|>', '<|return|>', '<|call|>', '<|constrain|>', '<|channel|>final<|message|>', '[INST]',
    '[/INST]', '[TOOL_CALLS]', '[ARGS]', '[CALL_ID]', '[TOOL_RESULTS]', '[/TOOL_RESULTS]', '[SYSTEM_PROMPT]', '[THINK]',
    '[/THINK]', '<s>', '</s>', '<｜User｜>', '<｜Assistant｜>', '<｜end▁of▁sentence｜>', '<｜begin▁of▁sentence｜>',
    '<｜tool▁calls▁begin｜>', '<｜tool▁output▁end｜>', '<｜DSML｜function_calls>', '<function_results>', '</result>', '[gMASK]', '<sop>',
    '<|user|>', '<|assistant|>', '<|observation|>', '<|system|>', '/nothink', '<arg_key>', '</arg_key>', '<arg_value>',
    '</arg_value>', '<|im_user|>', '<|im_assistant|>', '<|im_middle|>', '<|tool_calls_section_begin|>', '<|tool_call_end|>',
    '<tools>', '</tools>', '<pad>', '<unk>',
]
# Python's strip() takes U+0085 and U+001C and leaves U+FEFF; JavaScript's trim() does the opposite.
EDGES = ['\n', '\n\n', ' ', '  ', '\t', '\r\n', ' \n ', '\u00a0', '\u3000', '\u0085', '\u001c', '\ufeff', '\u2028', '\n\t\n']


class Words:
    """Draws texts. Remembers in `flags` what it put in that a reader of the goldens should know."""

    def __init__(self, rng: Random, lookalikes: bool, edges: bool):
        self.rng = rng
        self.lookalikes = lookalikes
        self.edges = edges
        self.flags: dict[str, bool] = {}

    def sentence(self, least: int = 2, most: int = 11) -> str:
        rng = self.rng
        words = [rng.choice(PLAIN) for _ in range(rng.randint(least, most))]
        for n in range(len(words)):
            dice = rng.random()
            if dice < 0.06:
                words[n] = rng.choice(OTHER)
            elif dice < 0.12:
                words[n] = rng.choice(SYMBOLS)
        glue = ' ' if rng.random() < 0.95 else ''
        return glue.join(words) + rng.choice(['.', '.', '?', '!', '', ':', '。'])

    def text(self, most: int = 4) -> str:
        """One to `most` sentences, code among them; never empty, never white space at its ends unless edges are wanted."""
        rng = self.rng
        parts = [self.sentence() for _ in range(rng.randint(1, most))]
        if rng.random() < 0.15:
            parts.insert(rng.randint(0, len(parts)), rng.choice(CODE))
        text = parts[0]
        for part in parts[1:]:
            text += rng.choice([' ', ' ', '\n', '\n\n', '\r\n', '\n- ', '  ']) + part
        text = text.strip().strip('\ufeff') or 'yes'
        if self.lookalikes and rng.random() < 0.4:
            self.flags['lookalike'] = True
            at = rng.randint(0, len(text))
            text = text[:at] + rng.choice(LOOKALIKES) + text[at:]
            # A cut may have bared white space at an end.
            text = text.strip() or 'yes'
        if self.edges and rng.random() < 0.5:
            self.flags['edges'] = True
            where = rng.random()
            if where < 0.7:
                text = rng.choice(EDGES) + text
            if where > 0.3:
                text += rng.choice(EDGES)
        return text
