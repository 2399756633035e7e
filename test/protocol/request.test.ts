// The door for create requests: what it lets in and what it refuses beyond its items and tools.
import { expect, test } from 'vitest'
import { parseCreate } from '../../src/protocol/request.ts'

const choose = (tool_choice: unknown): unknown =>
  parseCreate({ model: 'm', input: 'x', tool_choice }).settings.tool_choice

test.each([
  'auto',
  'none',
  'required',
  { type: 'function', name: 'f' },
  { type: 'custom', name: 'c' },
  { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'f' }, { type: 'web_search' }] },
  { type: 'web_search' },
  { type: 'newer', of: 1 },
])('a tool choice is kept as it came: %j', (choice) => {
  expect(choose(choice)).toEqual(choice)
})
test.each([
  'all',
  { name: 'f' },
  { type: 'function' },
  { type: 'function', function: { name: 'f' } },
  { type: 'custom', name: 5 },
  { type: 'allowed_tools', tools: [] },
  { type: 'allowed_tools', mode: 'auto', tools: 'f' },
  { type: 'allowed_tools', mode: 'auto', tools: [null] },
  { type: 'allowed_tools', mode: 'auto', tools: Array.from({ length: 1025 }, () => ({ type: 'function', name: 'f' })) },
])('a tool choice of a known type and another shape is refused, and no engine meets it: %#', (choice) => {
  expect(() => choose(choice)).toThrow(expect.objectContaining({ code: 'invalid_request', param: 'tool_choice' }))
})
