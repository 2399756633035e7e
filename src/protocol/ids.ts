// Ids as the wire has them: a prefix that names the kind and 160 random bits that nobody can guess.
import { randomFillSync } from 'node:crypto'

export type IdPrefix =
  | 'resp'
  | 'msg'
  | 'rs'
  | 'fc'
  | 'ctc'
  | 'fco'
  | 'ctco'
  | 'call'
  | 'cmp'
  | 'steer'
  | 'at'
  | 'item'
  | 'req'

// Random bytes are drawn in blocks: a draw per id costs more than the id.
const block = Buffer.alloc(20 * 256)
let used = block.length

export function newId(prefix: IdPrefix): string {
  if (used === block.length) {
    randomFillSync(block)
    used = 0
  }
  used += 20
  return `${prefix}_${block.toString('hex', used - 20, used)}`
}
