// Responses in, chat completions out: the whole request is translated every time, as a proxy without state does it.

/** Of the wire, either way; what is read of it is looked at. */
export type Json = Readonly<Record<string, unknown>>

/** The body for `/v1/chat/completions`. `items`: the input, with whatever stands before it. */
export function chatBody(request: Json, items: readonly Json[]): Json {
  const tools = list(request['tools']).filter((tool) => tool['type'] === 'function')
  const passed = ['temperature', 'top_p', 'parallel_tool_calls'].filter((name) => request[name] != null)
  return {
    model: request['model'],
    messages: messages(request['instructions'], items),
    ...(tools.length === 0 ? {} : { tools: tools.map(toolOf), tool_choice: choiceOf(request['tool_choice']) }),
    ...(typeof request['max_output_tokens'] === 'number' ? { max_tokens: request['max_output_tokens'] } : {}),
    ...Object.fromEntries(passed.map((name) => [name, request[name]])),
    stream: true,
    stream_options: { include_usage: true },
  }
}
/** A string is one message of the user. */
export function itemsOf(input: unknown): readonly Json[] {
  return typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : list(input)
}

function messages(instructions: unknown, items: readonly Json[]): Json[] {
  const out: Json[] = typeof instructions === 'string' ? [{ role: 'system', content: instructions }] : []
  // Calls of one answer stand in one message.
  let calls: Json[] | undefined
  for (const item of items) {
    if (item['type'] === 'function_call') {
      const call = {
        id: item['call_id'],
        type: 'function',
        function: { name: item['name'], arguments: item['arguments'] },
      }
      if (calls) calls.push(call)
      else out.push({ role: 'assistant', content: null, tool_calls: (calls = [call]) })
      continue
    }
    calls = undefined
    if (item['type'] === 'function_call_output')
      out.push({ role: 'tool', tool_call_id: item['call_id'], content: textOf(item['output']) })
    else if (item['type'] === 'message' || item['type'] === undefined)
      out.push({ role: item['role'] === 'developer' ? 'system' : item['role'], content: textOf(item['content']) })
  }
  return out
}
function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  return list(content)
    .map(({ text }) => (typeof text === 'string' ? text : ''))
    .join('')
}
function toolOf({ name, description, parameters, strict }: Json): Json {
  return { type: 'function', function: { name, description, parameters, strict } }
}
function choiceOf(choice: unknown): unknown {
  const { name } = (typeof choice === 'object' && choice !== null ? choice : {}) as Json
  return typeof name === 'string' ? { type: 'function', function: { name } } : (choice ?? 'auto')
}
export function list(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.filter((one): one is Json => typeof one === 'object' && one !== null) : []
}
