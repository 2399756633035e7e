// `npm run bench:micro [-- flags]`: installs what the benchmark compares with (real tokenizer files, the official native
// binding), and runs it. --help lists the flags.
import { join } from 'node:path'
import { fail, install, ready, root, run, tokenizers } from './prepare.mjs'

ready()
if (!install(tokenizers, 'the tokenizers that ours is compared with'))
  fail('they could not be installed; npm said why above.')
const args = ['--expose-gc', '--import', 'tsx', join(root, 'bench/micro/main.ts'), ...process.argv.slice(2)]
process.exit(run(process.execPath, args))
