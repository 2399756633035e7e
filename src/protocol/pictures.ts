// Pictures of requests, each held once in this process: clients that send a whole conversation with every turn send its
// pictures as often. What is known by its hash is neither checked nor kept again.
import { hash } from 'node:crypto'
import { checkImage, maxImageBytes } from './images.ts'
import type { InputImage } from './items.ts'

/** Pictures that are told apart; of one that was forgotten a second copy may be kept. */
const most = 4096
/** Characters of a data URL that may pass. */
const longest = Math.ceil(maxImageBytes / 3) * 4 + 256

/** By hash, the longest unused first. Held by conversations alone: what nobody has any more is gone. */
const held = new Map<string, WeakRef<InputImage>>()
const gone = new FinalizationRegistry<string>((key) => {
  // Another may stand there by now.
  if (held.get(key)?.deref() === undefined) held.delete(key)
})
const hashes = new WeakMap<object, string>()

/** The hash of the data that a part carries; made once for each part. */
export function dataHash(part: object, data: string): string {
  let known = hashes.get(part)
  if (known === undefined) hashes.set(part, (known = hash('sha256', data, 'base64')))
  return known
}
/** This part, or the one that is held of the same picture. Throws what checkImage does. `param`: the place of the part. */
export function heldOnce(part: InputImage & { image_url: string }, param: string): InputImage {
  const { image_url: url } = part
  // For its size it is refused, before anything is done with all of it.
  if (url.length > longest) checkImage(url, `${param}.image_url`)
  const key = dataHash(part, url)
  const known = held.get(key)?.deref()
  if (known?.image_url == null) {
    checkImage(url, `${param}.image_url`)
    hold(key, part)
    return part
  }
  hold(key, known)
  if (plain(part) && plain(known) && part.detail === known.detail) return known
  const same = { ...part, image_url: known.image_url }
  hashes.set(same, key)
  return same
}
/** Pictures that are held now. */
export const heldPictures = (): number => held.size

function hold(key: string, part: InputImage): void {
  const before = held.get(key)
  held.delete(key)
  held.set(key, before?.deref() === part ? before : new WeakRef(part))
  if (before?.deref() !== part) gone.register(part, key)
  if (held.size <= most) return
  for (const [oldest] of held) {
    held.delete(oldest)
    return
  }
}
const plain = (part: InputImage): boolean =>
  Object.keys(part).every((key) => key === 'type' || key === 'image_url' || key === 'detail')
