// Inference engines that people run on their own machine, found by asking their usual ports for a list of models.

export type LocalEngine = { readonly name: string; readonly port: number }
/** `yaml`: the lines of continuo.yaml that use it. */
export type Found = {
  readonly name: string
  readonly url: string
  readonly models: readonly string[]
  readonly yaml: string
}

/** The ports these programs listen on when they are told nothing. */
export const localEngines: readonly LocalEngine[] = [
  { name: 'vllm', port: 8000 },
  { name: 'sglang', port: 30_000 },
  { name: 'llama-server', port: 8080 },
  { name: 'ollama', port: 11_434 },
  { name: 'lm-studio', port: 1234 },
]

const patience = 1500
const longestAnswer = 1024 * 1024

/** Asks all of them at once, on 127.0.0.1; those with models come first. Never throws. */
export async function scan(engines: readonly LocalEngine[]): Promise<readonly Found[]> {
  const all = await Promise.all(engines.map(ask))
  return all.filter((f) => f !== undefined).sort((a, b) => Number(b.models.length > 0) - Number(a.models.length > 0))
}

async function ask({ name, port }: LocalEngine): Promise<Found | undefined> {
  const url = `http://127.0.0.1:${port}/v1`
  try {
    const answer = await fetch(`${url}/models`, { signal: AbortSignal.timeout(patience), redirect: 'manual' })
    const body = await bounded(answer)
    // 401 in JSON too is an engine: one that wants a key.
    if (answer.status === 401 && /^\s*\{/.test(body))
      return { name, url, models: [], yaml: lines(name, url, undefined, true) }
    const models = answer.ok ? modelsIn(body) : undefined
    return models && { name, url, models, yaml: lines(name, url, models[0], false) }
  } catch {
    return undefined
  }
}

async function bounded(answer: Response): Promise<string> {
  let text = ''
  const decoder = new TextDecoder()
  // Node's own type says any here; a body comes in bytes.
  const body: AsyncIterable<Uint8Array> | undefined = answer.body ?? undefined
  if (!body) return text
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true })
    if (text.length > longestAnswer) throw new Error('more than a list of models')
  }
  return text
}

/** `{data: [{id}]}`, the list every chat-completions server answers with; undefined for anything else. */
function modelsIn(body: string): string[] | undefined {
  const value: unknown = JSON.parse(body)
  if (typeof value !== 'object' || value === null || !('data' in value)) return undefined
  if (value.data === null) return []
  if (!Array.isArray(value.data)) return undefined
  return value.data.flatMap((m: unknown) =>
    typeof m === 'object' && m !== null && 'id' in m && typeof m.id === 'string' ? [m.id] : [],
  )
}

function lines(name: string, url: string, model: string | undefined, wantsKey: boolean): string {
  return `engines:
  ${name}:
    type: chat
    url: ${url}
${model === undefined ? '' : `    model: ${JSON.stringify(model)}\n`}${wantsKey ? '    apiKeyEnv: ENGINE_API_KEY\n' : ''}models:
  "*": {engine: ${name}}
`
}
