// A program that starts embedded llama.cpp, says its process's id and then ends without a word to anybody.
import { llamaEmbedded } from '../../src/engines/llama-embedded.ts'

const [model = '', modules = ''] = process.argv.slice(2)
const engine = llamaEmbedded({ model, modules, gpu: 'off', threads: 1, context: 256 })
await engine.probe(AbortSignal.timeout(90_000))
process.stdout.write(`${engine.pid}\n`, () => process.kill(process.pid, 'SIGKILL'))
