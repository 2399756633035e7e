// What the simulated model does when no scenario says otherwise: looks around with a tool for a few rounds, then answers.
import type { Settings } from '../protocol/request.ts'
import type { Callable } from '../protocol/tools.ts'
import { type Act, pieces, say } from './scenario-act.ts'
import { argumentsFor, isValid, valueFor } from './scenario-arguments.ts'
import { patternOf } from './scenario-pattern.ts'
import type { Seen } from './scenario-prompt.ts'

/** `rounds`: tool rounds before an answer. `reasoning`: think aloud first. */
export type Manner = { readonly rounds: number; readonly reasoning: boolean }

/** `tools`: what `tool_choice` left; `must`: one of them has to be called. */
export function behave(
  settings: Settings,
  { tools, must }: { tools: readonly Callable[]; must: boolean },
  seen: Seen,
  manner: Manner,
): Act[] {
  const thought = manner.reasoning && settings.reasoning?.effort !== 'none'
  const acts: Act[] = thought
    ? [{ do: 'reasoning', pieces: pieces('I look at what was asked and take the next step.') }]
    : []
  const forced = must && seen.rounds === 0
  const tool = forced || seen.rounds < manner.rounds ? pick(tools, forced, seen.rounds) : undefined
  if (tool)
    return [
      ...acts,
      { do: 'call', kind: tool.kind, name: tool.name, namespace: tool.namespace, input: inputFor(tool, seen.rounds) },
    ]
  return [...acts, say(answer(settings, seen))]
}

// As the tools that run a command are called in Codex, Cline, opencode, Gemini CLI, Cursor, Copilot, OpenHands, …
const shells = new Set([
  'exec_command',
  'shell',
  'shell_command',
  'local_shell',
  'bash',
  'execute_bash',
  'run_command',
  'execute_command',
  'run_shell_command',
  'run_terminal_cmd',
  'run_terminal_command',
  'run_in_terminal',
  'terminal',
  'exec',
])
const isShell = (tool: Callable): boolean => shells.has(tool.name.toLowerCase())
const looks = (tool: Callable): boolean => tool.kind === 'function' && /^(get|list|read|search)_/.test(tool.name)

/** A tool with a grammar wants a language that this model cannot write: it is called only where nothing else is left. */
function pick(tools: readonly Callable[], forced: boolean, round: number): Callable | undefined {
  const shell = tools.find(isShell)
  if (shell) return shell
  const readers = tools.filter(looks)
  if (readers.length > 0) return readers[round % readers.length]
  if (!forced) return undefined
  return tools.find((t) => t.kind === 'function') ?? tools.find((t) => t.format?.type !== 'grammar') ?? tools[0]
}

const commands = ['ls', 'ls -la', 'pwd']
// Never the same twice in a row: agents take three equal calls for a loop.
const commandOf = (round: number): string => commands[round] ?? `echo round ${round + 1}`

/** Arguments as JSON for a function, valid against its schema; the free input of a custom tool. */
export function inputFor(tool: Callable, round: number): string {
  if (tool.kind === 'custom') return freeInput(tool, round)
  const made = argumentsFor(tool.parameters)
  return JSON.stringify(isShell(tool) ? withCommand(tool.parameters, made, commandOf(round)) : made)
}
function withCommand(
  parameters: Record<string, unknown>,
  made: Record<string, unknown>,
  command: string,
): Record<string, unknown> {
  for (const key of ['cmd', 'command', 'commands', 'script', 'input', 'code'])
    for (const value of [command, command.split(' ')]) {
      const filled = { ...made, [key]: value }
      const asked = key in made || Object.hasOwn((parameters['properties'] ?? {}) as object, key)
      if (asked && isValid(parameters, filled)) return filled
    }
  return made
}
function freeInput(tool: Callable, round: number): string {
  const { format } = tool
  if (format?.type === 'grammar' && format.syntax === 'regex')
    return patternOf(format.definition)?.sample(0, 1000, 0) ?? 'text'
  if (format?.type === 'grammar' && format.definition.includes('*** Begin Patch'))
    return `*** Begin Patch\n*** Add File: simulated-${round + 1}.txt\n+Written by the simulated engine.\n*** End Patch\n`
  if (!isShell(tool)) return 'text'
  const command = commandOf(round)
  // Tools that run programs which call other tools, as Codex's newer models have them.
  if (!/javascript/i.test(tool.description)) return command
  return `const result = await tools.exec_command({ cmd: ${JSON.stringify(command)} });\ntext(result.output ?? JSON.stringify(result));\n`
}

function answer(settings: Settings, seen: Seen): string {
  const { format } = settings.text
  if (format.type === 'json_schema') return JSON.stringify(valueFor(format.schema))
  const text = words(seen)
  return format.type === 'json_object' ? JSON.stringify({ answer: text }) : text
}
function words({ user, output, rounds }: Seen): string {
  const asked = user === '' ? '' : ` You said: "${short(user)}".`
  if (rounds === 0) return `This is a simulated answer; no model has read the question.${asked}`
  const times = rounds === 1 ? 'one tool round' : `${rounds} tool rounds`
  const got = output === '' ? 'The last tool returned no text.' : `The last tool returned: ${short(output)}`
  return `I am done after ${times}. ${got}`
}
/** One line, at most 200 characters. */
function short(text: string): string {
  const line = Array.from(text.slice(0, 2000).replace(/\s+/g, ' ').trim())
  return line.length <= 200 ? line.join('') : `${line.slice(0, 199).join('')}…`
}
