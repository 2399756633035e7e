// What an agent of the benchmarks says: its settings, its task, and what its tools return.
import type { Asked, Fields } from '../src/bench/driver.ts'

/** What an agent sends with every turn: 5 kB of instructions and tools. */
export const settings = {
  model: 'bench',
  stream: true,
  instructions: 'You are a careful agent in a terminal. Look before you act, and say in the end what you did. '.repeat(
    30,
  ),
  tools: ['exec_command', 'apply_change', 'open_page', 'ask_person'].map((name) => ({
    type: 'function',
    name,
    description: `The tool ${name} of a coding agent. `.repeat(8),
    parameters: {
      type: 'object',
      properties: {
        cmd: { type: 'string' },
        cwd: { type: 'string' },
        timeout_ms: { type: 'number' },
        tail: { type: 'integer' },
      },
      required: ['cmd'],
      additionalProperties: false,
    },
    strict: false,
  })),
} as const

export const userMessage = (text: string): Fields => ({
  type: 'message',
  role: 'user',
  content: [{ type: 'input_text', text }],
})
export const outputOf = (call: Asked, output: string): Fields => ({
  type: 'function_call_output',
  call_id: call.call_id,
  output,
})
