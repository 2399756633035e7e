"""Items → the chat messages that a template is given. What hand-written codecs must agree with."""

import json
from typing import Any

from families import Family

Json = dict[str, Any]


def text_of(content: Any, between: str = '\n') -> str:
    if isinstance(content, str):
        return content
    return between.join(part.get('text', part.get('refusal', '')) for part in content or [])


def messages_of(family: Family, settings: Json, items: list[Json]) -> list[Json]:
    """The mapping, in the order in which it is done.

    1. Text of a message or an output: its parts joined by a line break; what the model wrote: joined by nothing.
    2. `instructions` and the system and developer messages that lead the conversation become one system message, texts
       joined by a blank line. No text at all: no system message.
    3. A later system or developer message becomes a message of the role `family.later_system`.
    4. Adjacent reasoning, assistant messages and calls form one assistant message. Reasoning behind a message or a call
       of the group opens a new one. Several reasoning items are joined by a blank line, several messages by nothing (also
       where one stands behind a call). The message is {role, content, reasoning under the family's name for it,
       tool_calls}; `content` is '' where there is no text (`family.no_text` where there are calls), the other two are
       left out where there are none. Reasoning that the template has no place for is left out.
    5. A call is {id, type: 'function', function: {name, arguments}}, arguments as text or parsed (`family.arguments`).
       `family.calls == 'split'`: each further call of a group in an assistant message of its own, behind the first; only
       the first has reasoning and text.
    6. An output is {role: 'tool', tool_call_id, name, content}, in the order of the items.
    7. `family.users == 'joined'`: adjacent user messages become one, joined by a blank line.
    8. `family.ids == 'functions'`: ids are `functions.NAME:N`, N the number of the call in its group.
    """
    out: list[Json] = []
    lead = [settings['instructions']] if settings['instructions'] else []
    at = 0
    while at < len(items) and items[at]['type'] == 'message' and items[at]['role'] in ('system', 'developer'):
        lead.append(text_of(items[at]['content']))
        at += 1
    if lead:
        out.append({'role': 'system', 'content': '\n\n'.join(lead)})
    names: dict[str, str] = {}
    ids: dict[str, str] = {}
    group: Json | None = None

    def close() -> None:
        nonlocal group
        if group is not None:
            out.extend(assistant(family, group))
        group = None

    for item in items[at:]:
        kind = item['type']
        if kind == 'message' and item['role'] != 'assistant':
            close()
            role = 'user' if item['role'] == 'user' else family.later_system
            content = text_of(item['content'])
            if role == 'user' and family.users == 'joined' and out and out[-1]['role'] == 'user':
                out[-1]['content'] += '\n\n' + content
            else:
                out.append({'role': role, 'content': content})
        elif kind == 'function_call_output':
            close()
            call_id = item['call_id']
            content = text_of(item['output'])
            out.append({'role': 'tool', 'tool_call_id': ids[call_id], 'name': names[call_id], 'content': content})
        else:
            if kind == 'reasoning' and group is not None and (group['said'] or group['calls']):
                close()
            if group is None:
                group = {'thoughts': [], 'said': [], 'calls': []}
            if kind == 'reasoning':
                group['thoughts'].append(text_of(item['content'], ''))
            elif kind == 'message':
                group['said'].append(text_of(item['content'], ''))
            else:
                name, call_id = item['name'], item['call_id']
                names[call_id] = name
                ids[call_id] = f'functions.{name}:{len(group["calls"])}' if family.ids == 'functions' else call_id
                arguments = item['arguments'] if family.arguments == 'text' else json.loads(item['arguments'])
                function = {'name': name, 'arguments': arguments}
                group['calls'].append({'id': ids[call_id], 'type': 'function', 'function': function})
    close()
    return out


def assistant(family: Family, group: Json) -> list[Json]:
    text, thought, calls = ''.join(group['said']), '\n\n'.join(group['thoughts']), group['calls']
    message: Json = {'role': 'assistant', 'content': text if text or not calls else family.no_text}
    if thought and family.reasoning == 'blocks':
        said = [{'type': 'text', 'text': text}] if text else []
        message['content'] = [{'type': 'thinking', 'thinking': thought}, *said]
    elif thought and family.reasoning != 'none':
        message[family.reasoning] = thought
    if not calls:
        return [message]
    if family.calls == 'together':
        return [{**message, 'tool_calls': calls}]
    first = {**message, 'tool_calls': calls[:1]}
    return [first, *({'role': 'assistant', 'content': family.no_text, 'tool_calls': [call]} for call in calls[1:])]


def tools_of(settings: Json) -> list[Json] | None:
    """None for an empty list, as servers do. Without a description '', without parameters an object that has none."""
    return [
        {
            'type': 'function',
            'function': {
                'name': tool['name'],
                'description': tool.get('description') or '',
                'parameters': tool['parameters'] if tool['parameters'] is not None else {'type': 'object', 'properties': {}},
            },
        }
        for tool in settings['tools']
    ] or None
