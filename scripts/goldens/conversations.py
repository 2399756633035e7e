"""Random conversations of the Responses API, as this server holds them after its door: settings and items.

Agent loops above all: reasoning, text, parallel calls, outputs, answers, several user turns. Everything a family cannot
take in principle is a knob of `Talk`; everything a test may want to leave out is a flag of the case.
"""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from words import Words

VERBS = ['read', 'write', 'list', 'search', 'run', 'fetch', 'apply', 'get', 'delete', 'plan']
NOUNS = ['file', 'files', 'shell', 'weather', 'patch', 'page', 'issue', 'table', 'url', 'notes', 'テスト']
PROPERTIES = [
    'path', 'query', 'limit', 'recursive', 'city', 'unit', 'lines', 'options', 'content', 'timeout_ms', 'filters', 'tags',
    'start', 'end', 'force', 'encoding', 'cwd', 'headers', 'max-depth', 'größe',
]
CHOICES = ['celsius', 'fahrenheit', 'utf-8', 'latin1', 'none', 'größte', 'a "b"', 'x/y']
SCALARS = ['string', 'integer', 'number', 'boolean']
KINDS = ['string', *SCALARS, 'array', 'object', 'enum', 'nullable', 'any']
STRINGS = ['', 'src/main.ts', 'a\nb', 'true', '42', 'null', '{"a":1}']


@dataclass(frozen=True)
class Talk:
    """What conversations of a family look like."""

    efforts: tuple[str | None, ...] = (None,)
    # The template insists that user and assistant take turns: every tool loop ends in an answer, one answer a turn.
    alternates: bool = False
    # 'some': a fifth of the conversations has none. 'always': the template cannot do without. 'few': it shows none.
    tools: str = 'some'
    # How many of the conversations that could have calls do.
    calling: float = 1.0
    # Length of call ids where the template insists on nine letters; otherwise those of the public API.
    nine: bool = False
    # Text beside a call in one assistant message: rarely where the template loses it.
    preamble: float = 0.3
    # More than one call at a time.
    parallel: float = 0.35
    # Arguments whose top-level values are true, false or null: rarely where the template prints them Python's way.
    literals: float = 0.5


def canonical(value: Any) -> str:
    """JSON text as templates print it (`tojson`): it is read and printed again without change."""
    return json.dumps(value, ensure_ascii=False)


class Conversation:
    def __init__(self, rng: Random, talk: Talk):
        self.rng = rng
        self.talk = talk
        self.words = Words(rng, lookalikes=rng.random() < 0.06, edges=rng.random() < 0.12)
        self.flags: dict[str, Any] = self.words.flags
        self.odd = rng.random() < 0.04
        self.items: list[dict[str, Any]] = []
        self.said: set[str] = set()
        self.literal = rng.random() < talk.literals
        self.think = rng.choice([0.0, 0.5, 1.0, 1.0])
        self.chatty = rng.random() < talk.preamble
        self.parallel = rng.random() < talk.parallel
        chance = {'some': 0.8, 'always': 1.0, 'few': 0.1}[talk.tools]
        names: dict[str, dict[str, Any]] = {}
        if rng.random() < chance:
            for _ in range(rng.randint(1, 3)):
                tool = self.tool()
                names.setdefault(tool['name'], tool)
        self.settings = {
            'instructions': self.words.text(4) if rng.random() < 0.6 else None,
            'tools': list(names.values()),
            'effort': rng.choice(talk.efforts),
        }
        can = bool(names) or talk.tools == 'few' or rng.random() < 0.3
        self.calling = can and rng.random() < talk.calling
        self.make()

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    def tool(self) -> dict[str, Any]:
        rng = self.rng
        name = self.tool_name()
        dice = rng.random()
        parameters = None if dice < 0.05 else {'type': 'object', 'properties': {}} if dice < 0.12 else self.schema(0)
        tool: dict[str, Any] = {'type': 'function', 'name': name}
        dice = rng.random()
        if dice < 0.8:
            tool['description'] = self.words.text(2)
        elif dice < 0.9:
            tool['description'] = None
        tool['parameters'] = parameters
        tool['strict'] = rng.choice([True, False, None])
        return tool

    def tool_name(self) -> str:
        rng = self.rng
        verb, noun = rng.choice(VERBS), rng.choice(NOUNS[:-1])
        return rng.choice([f'{verb}_{noun}', f'{verb}-{noun}', verb + noun.capitalize(), f'mcp__{noun}__{verb}'])

    def schema(self, depth: int) -> dict[str, Any]:
        rng = self.rng
        names = rng.sample(PROPERTIES, rng.randint(1, 3 if depth == 0 else 2))
        schema: dict[str, Any] = {'type': 'object', 'properties': {name: self.property(depth) for name in names}}
        if rng.random() < 0.7:
            schema['required'] = [name for name in names if rng.random() < 0.6]
        if rng.random() < 0.4:
            schema['additionalProperties'] = False
        if depth == 0 and rng.random() < 0.1:
            schema['$schema'] = 'http://json-schema.org/draft-07/schema#'
        return schema

    def property(self, depth: int) -> dict[str, Any]:
        """Numbers in schemas are such that JavaScript and Python print them alike."""
        rng = self.rng
        kind = rng.choice(KINDS)
        said = {'description': self.words.text(1)} if rng.random() < 0.7 else {}
        if kind == 'enum':
            values = rng.sample(CHOICES, rng.randint(1, 3))
            made: dict[str, Any] = {'type': 'string', 'enum': values}
            if rng.random() < 0.3:
                made['default'] = values[0]
        elif kind == 'nullable':
            made = {'type': ['string', 'null']} if rng.random() < 0.5 else {'type': 'string', 'nullable': True}
        elif kind == 'any':
            made = {'anyOf': [{'type': 'string'}, {'type': 'null'}]} if rng.random() < 0.7 else {}
            if rng.random() < 0.4:
                made = {'oneOf': [{'type': 'string'}, {'type': 'integer', 'description': 'As a number.'}]}
        elif kind == 'array':
            made = {'type': 'array'}
            if rng.random() < 0.85:
                flat = depth > 1 or rng.random() < 0.6
                made['items'] = {'type': rng.choice(SCALARS)} if flat else self.schema(depth + 1)
        elif kind == 'object':
            made = {'type': 'object'} if depth > 1 else self.schema(depth + 1)
        else:
            made = {'type': kind}
            if kind in ('integer', 'number') and rng.random() < 0.4:
                made['minimum'] = rng.choice([0, 1, -5])
                made['default'] = rng.choice([10, 0.5, 2.25, 100000]) if kind == 'number' else rng.choice([1, 10, 4096])
            elif kind == 'boolean' and rng.random() < 0.4:
                made['default'] = rng.random() < 0.5
            elif kind == 'string' and rng.random() < 0.2:
                made['default'] = rng.choice(['.', '', 'main', 'a "b"', 'é'])
        return {**said, **made} if rng.random() < 0.3 else {**made, **said}

    # ── arguments ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def value(self, depth: int) -> Any:
        rng = self.rng
        dice = rng.random()
        if dice < 0.45:
            return self.words.text(1) if rng.random() < 0.6 else rng.choice(STRINGS)
        if dice < 0.6:
            return rng.choice([0, 1, -1, 7, 42, 65536, 2**53, 2**53 + 1, 12345678901234567890, -(2**63)])
        if dice < 0.72:
            return rng.choice([1.0, 0.5, -0.25, 3.14159, 1e-7, 1e22, 1.5e300, 100.0, -0.0, 0.1])
        if dice < 0.82 and (self.literal or depth > 0):
            return rng.choice([True, False, None])
        if dice < 0.91 or depth > 1:
            return [] if depth > 1 else [self.value(depth + 1) for _ in range(rng.randint(0, 3))]
        return {name: self.value(depth + 1) for name in rng.sample(PROPERTIES, rng.randint(0, 2))}

    def arguments(self, tool: dict[str, Any] | None) -> str:
        rng = self.rng
        known = list(((tool or {}).get('parameters') or {}).get('properties', {}))
        names = [name for name in known if rng.random() < 0.8] if known else rng.sample(PROPERTIES, rng.randint(0, 2))
        value = {name: self.value(0) for name in names}
        if not self.odd or rng.random() < 0.3:
            return canonical(value)
        self.flags['args'] = 'odd'
        return rng.choice([
            lambda: json.dumps(value, ensure_ascii=False, separators=(',', ':')),
            lambda: json.dumps(value, ensure_ascii=True, indent=2),
            lambda: '{"path": "\\u00e9\\/x", "limit": 1E5, "start": 1.50}',
            lambda: '{ "a" : 1e-7 , "b" : 1e21 }',
            lambda: '{"a": 1, "a": 2}',
        ])()

    # ── items ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    def message(self, role: str, text: str) -> None:
        kind = 'output_text' if role == 'assistant' else 'input_text'
        texts = [text]
        if len(text) > 8 and self.rng.random() < 0.15:
            # Several parts; together they are the text.
            at = self.rng.randint(1, len(text) - 1)
            texts = [text[:at], text[at:]]
        more = {'annotations': []} if role == 'assistant' else {}
        content = [{'type': kind, 'text': part, **more} for part in texts]
        if role == 'assistant' and self.rng.random() < 0.02:
            content = [{'type': 'refusal', 'refusal': text}]
        self.items.append({'type': 'message', 'role': role, 'content': content})

    def user(self) -> None:
        text = self.words.text(3)
        # Templates compare user messages by value; two that are alike would be another case.
        while text in self.said:
            text = self.words.text(4)
        self.said.add(text)
        self.message('user', text)

    def reasoning(self) -> None:
        for _ in range(2 if self.rng.random() < 0.05 else 1):
            content = [{'type': 'reasoning_text', 'text': self.words.text(2)}]
            self.items.append({'type': 'reasoning', 'summary': [], 'content': content})

    def calls(self) -> None:
        rng = self.rng
        tools: list[dict[str, Any]] = self.settings['tools']
        ids: list[str] = []
        for _ in range(rng.randint(2, 3) if self.parallel and rng.random() < 0.6 else 1):
            tool = rng.choice(tools) if tools and rng.random() < 0.95 else None
            letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'
            call_id = ''.join(rng.choice(letters) for _ in range(9))
            if not self.talk.nine:
                call_id = 'call_' + call_id
            ids.append(call_id)
            name = tool['name'] if tool else self.tool_name()
            self.items.append({'type': 'function_call', 'call_id': call_id, 'name': name, 'arguments': self.arguments(tool)})
        if rng.random() < 0.02 and self.talk.preamble > 0.2:
            self.flags['afterthought'] = True
            self.message('assistant', self.words.text(1))
        if len(ids) > 1 and rng.random() < 0.1:
            self.flags['shuffled'] = True
            ids.reverse()
        for call_id in ids:
            dice = rng.random()
            output: Any = '' if dice < 0.05 else self.words.text(3)
            if dice > 0.85:
                output = [{'type': 'input_text', 'text': self.words.text(2)} for _ in range(rng.randint(1, 2))]
            elif dice > 0.75:
                output = canonical({'ok': rng.random() < 0.5, 'result': self.value(0)})
            self.items.append({'type': 'function_call_output', 'call_id': call_id, 'output': output})

    def model(self, calls: bool) -> None:
        """One answer of the model, with the outputs of its calls where it calls."""
        rng = self.rng
        if rng.random() < self.think:
            self.reasoning()
        if not calls:
            self.message('assistant', self.words.text(3))
            if rng.random() < 0.05:
                self.message('assistant', self.words.text(1))
            return
        if self.chatty and rng.random() < 0.6:
            self.message('assistant', self.words.text(1))
        self.calls()

    def make(self) -> None:
        rng = self.rng
        for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
            self.message(rng.choice(['system', 'developer']), self.words.text(2))
        late = rng.random() < 0.2
        cycles = rng.randint(1, 4)
        for cycle in range(cycles):
            if cycle > 0 and late and rng.random() < 0.5:
                self.message(rng.choice(['system', 'developer']), self.words.text(1))
            for _ in range(2 if rng.random() < 0.08 else 1):
                self.user()
            for _ in range(rng.choice([0, 1, 1, 2, 3]) if self.calling else 0):
                self.model(calls=True)
                if not self.talk.alternates and rng.random() < 0.06:
                    # Somebody speaks up in the middle of a tool loop.
                    self.message('developer', self.words.text(1)) if late else self.user()
            if cycle == cycles - 1 and self.items[-1]['type'] == 'function_call_output' and rng.random() < 0.7:
                break
            if not self.talk.alternates and rng.random() < 0.04:
                # The turn broke off: only its reasoning is left, or nothing.
                if rng.random() < 0.5 and self.think > 0:
                    self.flags['hollow'] = True
                    self.reasoning()
                continue
            self.model(calls=False)
            if not self.talk.alternates and self.think > 0 and rng.random() < 0.04:
                # It thought again and went on: a second assistant message.
                self.reasoning()
                self.message('assistant', self.words.text(2))
        while model_made(self.items[-1]):
            self.items.pop()


def model_made(item: dict[str, Any]) -> bool:
    return item['type'] in ('reasoning', 'function_call') or (item['type'] == 'message' and item['role'] == 'assistant')


def turns(items: list[dict[str, Any]]) -> list[int]:
    """Numbers of items at which a server asks the model: every end of a run of input."""
    ends = range(1, len(items) + 1)
    return [n for n in ends if not model_made(items[n - 1]) and (n == len(items) or model_made(items[n]))]
