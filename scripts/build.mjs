// `npm run build`: src/ to dist/, installing what that needs.
import { build, ready } from './prepare.mjs'

ready()
build()
