// LiteLLM's proxy, one worker, without a database. The provider `llamafile` is any chat-completions server: with `openai`
// or `hosted_vllm` LiteLLM would ask the engine for Responses.
import { join } from 'node:path'
import type { Peer } from '../peer.ts'
import { freePort, missing, newFolder, output, peerFolder, startProgram } from '../program.ts'

const bin = (): string => join(peerFolder('litellm'), 'bin')
const install = `python3 -m venv ${peerFolder('litellm')} && ${bin()}/pip install "litellm[proxy]"`
// It does not start without one, and nobody else is asked for it.
const key = 'sk-continuo-bench-0123456789abcdef0123456789abcdef'

export const litellm: Peer = {
  name: 'litellm',
  what: 'LiteLLM proxy (Python), its bridge from Responses to chat completions, one worker, no database',
  install,
  asks: 'chat',
  ways: ['http-full', 'ws-full', 'ws-previous'],
  lacks:
    'http-previous: LiteLLM finds earlier responses in the spend log of a PostgreSQL database; without one it answers, but the model gets only the newest items',
  available: () => missing(join(bin(), 'litellm'), install),
  version: () => output(join(bin(), 'python'), ['-c', "import importlib.metadata as m; print(m.version('litellm'))"]),
  start: async ({ engineUrl, model }) => {
    const port = await freePort()
    const config = {
      model_list: [
        { model_name: model, litellm_params: { model: `llamafile/${model}`, api_base: engineUrl, api_key: 'none' } },
      ],
      litellm_settings: { telemetry: false, num_retries: 0 },
    }
    // JSON is YAML.
    const folder = await newFolder('litellm', { 'config.yaml': JSON.stringify(config) })
    const { stop } = await startProgram({
      name: 'litellm',
      command: join(bin(), 'litellm'),
      args: ['--config', 'config.yaml', '--host', '127.0.0.1', '--port', String(port), '--telemetry', 'False'],
      env: {
        LITELLM_MASTER_KEY: key,
        LITELLM_TELEMETRY: 'False',
        // Prices are not fetched from elsewhere.
        LITELLM_LOCAL_MODEL_COST_MAP: 'True',
        LITELLM_LOG: 'ERROR',
      },
      folder,
      healthUrl: `http://127.0.0.1:${port}/health/liveliness`,
      startMs: 180_000,
    })
    return { url: `http://127.0.0.1:${port}/v1`, key, stop }
  },
}
