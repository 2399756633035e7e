// The part of node-llama-cpp 3.21 that is used, as types of our own: the package is installed by those who want it, and
// loaded in a process of its own only.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

export type Meter = { readonly usedInputTokens: number; readonly usedOutputTokens: number }
export type GrammarState = { readonly clone: () => GrammarState }
export type Grammar = object
export type EvaluateOptions = {
  readonly temperature: number
  readonly topP: number
  readonly topK: number
  readonly minP: number
  readonly seed: number
  readonly yieldEogToken: true
  readonly grammarEvaluationState?: () => GrammarState | undefined
  readonly repeatPenalty?: {
    readonly punishTokens: () => number[]
    readonly maxPunishTokens: number
    readonly penalty: number
    readonly presencePenalty: number
    readonly frequencyPenalty: number
  }
}
export interface Sequence {
  readonly nextTokenIndex: number
  readonly contextTokens: number[]
  readonly needsCheckpoints: boolean
  readonly tokenMeter: { getState(): Meter; diff(before: Meter): Meter }
  compareContextTokens(tokens: ArrayLike<number>): { readonly firstDifferentIndex: number }
  eraseContextTokenRanges(ranges: { start: number; end: number }[]): Promise<void>
  clearHistory(): Promise<void>
  evaluate(tokens: number[], options: EvaluateOptions): AsyncGenerator<number, void, number | undefined>
  evaluateWithoutGeneratingNewTokens(tokens: number[]): Promise<void>
  takeCheckpoint(): Promise<void>
  saveStateToFile(path: string): Promise<{ fileSize: number }>
  loadStateFromFile(path: string, accept: { acceptRisk: true }): Promise<void>
}
/** One sequence's share of what waits to be computed. */
export type BatchItem = { readonly tokens: readonly number[] }
export type Batched = { item: BatchItem; processAmount: number }
export interface Context {
  readonly contextSize: number
  readonly batchSize: number
  getSequence(): Sequence
}
export interface Model {
  readonly filename: string | undefined
  tokenize(text: string, special: boolean): number[]
  detokenize(tokens: readonly number[], special: boolean): string
  isEogToken(token: number): boolean
  createContext(options: {
    sequences: number
    contextSize: number | { max: number }
    threads: number
    flashAttention: 'auto' | boolean
    batching: { itemPrioritizationStrategy: (all: { items: readonly BatchItem[]; size: number }) => Batched[] }
  }): Promise<Context>
}
export interface Llama {
  loadModel(options: { modelPath: string }): Promise<Model>
  createGrammar(options: { grammar: string; rootRuleName: string }): Promise<Grammar>
}
export type Library = {
  getLlama(options: {
    gpu: false | 'auto' | 'metal' | 'cuda' | 'vulkan'
    build: 'never'
    maxThreads: number
    progressLogs: false
    logLevel: string
    logger: (level: string, message: string) => void
  }): Promise<Llama>
  readGgufFileInfo(path: string, options: { readTensorInfo: false; logWarnings: false }): Promise<{ metadata: unknown }>
  readonly LlamaGrammarEvaluationState: new (of: { model: Model; grammar: Grammar }) => GrammarState
}

/**
 * URL of the package's entry: in `modules` (a folder that has `node_modules`), beside this program, or in the working
 * directory. Throws an Error with the command that installs it.
 */
export function libraryUrl(modules: string | undefined): string {
  const places =
    modules === undefined ? [fileURLToPath(import.meta.url), join(process.cwd(), 'x.js')] : [join(modules, 'x.js')]
  for (const place of places)
    try {
      return pathToFileURL(createRequire(place).resolve('node-llama-cpp')).href
    } catch {
      // Not here.
    }
  const where = modules === undefined ? '' : ` in ${modules}`
  throw new Error(
    `the package node-llama-cpp is not installed${where}; install it with ` +
      `"npm install${modules === undefined ? '' : ` --prefix ${modules}`} --save-exact node-llama-cpp@3.21.1".`,
  )
}
