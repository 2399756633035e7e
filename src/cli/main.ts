#!/usr/bin/env node
// The program `continuo`: names its commands and hands over to them. Nothing is loaded before it is needed.
import { Command } from 'commander'
import { agentCommand } from './agent.ts'
import { benchCommand } from './bench.ts'
import { explainCommand } from './explain.ts'
import { version } from '../version.ts'
import { configOptions, type ConfigOptions } from './options.ts'

const examples = `
Examples:
  continuo                                           serve on http://127.0.0.1:8787 with the simulated engine
  continuo --engine-url http://127.0.0.1:8000/v1     serve what a vLLM (or any chat-completions server) generates
  continuo serve -c team.yaml --port 9000            serve as a file says, on another port
  PORT=9000 CONTINUO_LOG_LEVEL=debug continuo        the same kind of thing by environment
  continuo doctor                                    say where every value comes from, and try everything once
  continuo explain first.json second.json            say where two prompts part, and what to do about it
  continuo bench loop --quick                        measure what WebSocket mode is worth here, in two minutes
  continuo agent "list the files here"               a small agent that works over the socket

Flags win over the environment, the environment over the file, the file over the defaults; docs/config.md has them all.
`

const program = new Command('continuo')
  .description(
    'A server for the OpenAI Responses API with WebSocket mode: agents keep one socket open, and every turn costs only what is new in it.',
  )
  .version(version, '-V, --version', 'print the version')
  .helpOption('-h, --help', 'print this help')
  .showHelpAfterError('(continuo --help shows what there is)')
  .addHelpText('after', examples)

configOptions(program.command('serve', { isDefault: true }))
  .description('serve (this is what happens without a command)')
  .action(async (options: ConfigOptions) => {
    const { serve } = await import('./serve.ts')
    await serve(options)
  })

agentCommand(program)
explainCommand(program)
benchCommand(program)

configOptions(program.command('doctor'))
  .description(
    'say where every setting comes from, and try the engines, the store and the socket; exit code 1 if anything failed',
  )
  .option('--key <secret>', 'the key to dial a running server with (default: CONTINUO_API_KEY)')
  .option('--json', 'print one JSON object')
  .addHelpText(
    'after',
    '\nExamples:\n  continuo doctor\n  continuo doctor -c team.yaml --json\n  CONTINUO_API_KEY=… continuo doctor --port 9000\n',
  )
  .action(async (options: ConfigOptions & { key?: string; json?: boolean }) => {
    const { doctor } = await import('./doctor.ts')
    process.exitCode = await doctor(options)
  })

await program.parseAsync()
