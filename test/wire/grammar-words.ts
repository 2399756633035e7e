// Which events belong to which parts and items, and which status to which ending: the tables of grammar.ts.

export const textOfPart: Readonly<Record<string, string>> = {
  output_text: 'text',
  refusal: 'refusal',
  reasoning_text: 'text',
  summary_text: 'text',
}
export const partOfEvent: Readonly<Record<string, string>> = {
  'response.output_text': 'output_text',
  'response.refusal': 'refusal',
  'response.reasoning_text': 'reasoning_text',
  'response.reasoning_summary_text': 'summary_text',
}
export const callOfEvent: Readonly<Record<string, readonly [type: string, field: string]>> = {
  'response.function_call_arguments': ['function_call', 'arguments'],
  'response.custom_tool_call_input': ['custom_tool_call', 'input'],
}
export const statusOfTerminal: Readonly<Record<string, readonly string[]>> = {
  'response.completed': ['completed'],
  'response.failed': ['failed'],
  'response.incomplete': ['incomplete', 'cancelled'],
}
