// What the page of a report does in the browser: it draws the plots of the results that stand in it, and hands the results
// out as files. A text, since the page carries it along; plain JavaScript that knows uPlot and the document only.

/** Runs before anything is shown, so that the page does not flash in the wrong colours. */
export const themeScript = `(() => {
  const dark = matchMedia('(prefers-color-scheme: dark)')
  const apply = () => { document.documentElement.dataset.theme = dark.matches ? 'dark' : 'light' }
  apply()
  dark.addEventListener('change', () => { apply(); dispatchEvent(new Event('themechange')) })
})()`

export const pageScript = String.raw`(() => {
  const three = new Intl.NumberFormat('en-GB', { maximumSignificantDigits: 3 })
  const grouped = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 })
  const compact = new Intl.NumberFormat('en-GB', { notation: 'compact', maximumSignificantDigits: 3 })
  const figure = (n) => {
    const size = Math.abs(n)
    if (size >= 1e15 || (size > 0 && size < 1e-6)) return n.toExponential(2)
    return Number.isInteger(n) || size >= 1000 ? grouped.format(n) : three.format(n)
  }
  const brief = (n) => (Math.abs(n) >= 1e15 || (n !== 0 && Math.abs(n) < 1e-3) ? n.toExponential(0) : Math.abs(n) >= 1000 ? compact.format(n) : figure(n))
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
  const palette = 8
  const named = (n) => '--s' + (n % palette)
  const make = (tag, text, name) => {
    const element = document.createElement(tag)
    if (text !== undefined) element.textContent = text
    if (name) element.className = name
    return element
  }
  const wash = (hex, share) => hex + Math.round(share * 255).toString(16).padStart(2, '0')

  /** Numbers as the scale can show them. */
  const cleaned = (values, log, count) => Array.from({ length: count }, (_, n) => {
    const v = values ? values[n] : null
    return typeof v === 'number' && (!log || v > 0) ? v : null
  })

  /** What uPlot is given, and what the tip says of an index: [title, series shown there]. */
  function lines(plot) {
    const order = plot.x.values.map((_, n) => n)
      .filter((n) => typeof plot.x.values[n] === 'number' && (!plot.x.log || plot.x.values[n] > 0))
      .sort((a, b) => plot.x.values[a] - plot.x.values[b])
    const xs = order.map((n) => plot.x.values[n])
    const pick = (values) => order.map((n) => values[n])
    const series = plot.series.map((s) => [s.values, s.low, s.high].map((v) => pick(cleaned(v, plot.y.log, plot.x.values.length))))
    const data = [xs, ...series.map(([v]) => v), ...series.flatMap(([, low, high]) => [high, low])]
    const count = plot.series.length
    return {
      data,
      dots: (colours) => plot.series.map((s, n) => ({
        label: s.name, stroke: colours[n], width: 2, spanGaps: true, dash: n < palette ? undefined : [6, 4],
        points: { show: xs.length <= 60, size: 6, fill: colours[n], stroke: colours[n] },
      })).concat(plot.series.flatMap(() => [0, 1].map(() => ({ stroke: 'transparent', width: 0, spanGaps: true, points: { show: false } })))),
      bands: (colours) => plot.series.map((s, n) => ({ series: [1 + count + 2 * n, 2 + count + 2 * n], fill: wash(colours[n], 0.16) })),
      companions: (n) => [1 + count + 2 * n, 2 + count + 2 * n],
      title: (idx) => plot.x.label + ' ' + (plot.x.names && plot.x.names[order[idx]] || figure(xs[idx])),
      at: (idx, n) => series[n].map((v) => v[idx]),
      xs, order,
    }
  }
  /** Each bar has a place of its own on x: groups of them, with a place left free between groups. */
  function bars(plot) {
    const count = plot.series.length
    const groups = plot.x.values.length
    const places = groups * (count + 1) - 1
    const xs = Array.from({ length: Math.max(1, places) }, (_, n) => n)
    const series = plot.series.map((s) => [s.values, s.low, s.high].map((v) => cleaned(v, plot.y.log, groups)))
    const spread = (values, n) => xs.map((x) => (x % (count + 1) === n ? values[Math.floor(x / (count + 1))] : null))
    return {
      data: [xs, ...series.map(([v], n) => spread(v, n))],
      dots: (colours) => plot.series.map((s, n) => ({
        label: s.name, stroke: colours[n], fill: wash(colours[n], 0.82), width: 0, points: { show: false },
        paths: uPlot.paths.bars({ size: [0.86, 46], radius: 0.12 }),
      })),
      bands: () => [],
      companions: () => [],
      title: (idx) => {
        const g = Math.floor(idx / (count + 1))
        return (plot.x.names && plot.x.names[g]) || (plot.x.label + ' ' + figure(plot.x.values[g]))
      },
      at: (idx, n) => (idx % (count + 1) === count ? [] : series[n].map((v) => v[Math.floor(idx / (count + 1))])),
      xs, groups, count, series,
    }
  }
  /** Whiskers of bars, over them. */
  function whiskers(u, shape, colours) {
    const { ctx } = u
    ctx.save()
    ctx.strokeStyle = colour('--ink')
    ctx.lineWidth = devicePixelRatio * 1.25
    shape.series.forEach(([, low, high], n) => {
      if (!u.series[n + 1].show) return
      for (let g = 0; g < shape.groups; g++) {
        if (low[g] === null || high[g] === null || low[g] === high[g]) continue
        const x = u.valToPos(g * (shape.count + 1) + n, 'x', true)
        const [a, b] = [low[g], high[g]].map((v) => u.valToPos(v, 'y', true))
        const arm = 3 * devicePixelRatio
        ctx.beginPath()
        ctx.moveTo(x, a); ctx.lineTo(x, b)
        ctx.moveTo(x - arm, a); ctx.lineTo(x + arm, a)
        ctx.moveTo(x - arm, b); ctx.lineTo(x + arm, b)
        ctx.stroke()
      }
    })
    ctx.restore()
  }
  /** Of what is shown; a scale that is not logarithmic begins at 0. */
  function rangeOf(plot, shape, shown) {
    const all = plot.series.flatMap((s, n) => (shown[n] ? [s.values, s.low, s.high] : []))
      .flatMap((v) => cleaned(v, plot.y.log, plot.x.values.length)).filter((v) => v !== null)
    const least = all.reduce((a, b) => Math.min(a, b), Infinity)
    const most = all.reduce((a, b) => Math.max(a, b), -Infinity)
    if (all.length === 0) return plot.y.log ? [1, 10] : [0, 1]
    if (!plot.y.log) return [Math.min(0, least * 1.06), most > 0 ? most * 1.06 : least < 0 ? 0 : 1]
    const low = plot.kind === 'bars' ? least / 2 : least / 1.25
    const high = most * 1.25
    // A decade at least, so that there is something to read on the axis.
    return high / low >= 10 ? [low, high] : [low / Math.sqrt((10 * low) / high), high * Math.sqrt((10 * low) / high)]
  }
  /** On a logarithmic axis: 1, 10, 100, or 1, 2, 5 where there are few of those. */
  function logSplits(min, max) {
    const out = []
    const decades = Math.log10(max / min)
    const step = Math.max(1, Math.ceil(decades / 8))
    for (let p = Math.floor(Math.log10(min)); p <= Math.ceil(Math.log10(max)); p++)
      for (const d of decades < 3 ? [1, 2, 5] : [1]) {
        const v = d * 10 ** p
        if (v >= min * 0.999 && v <= max * 1.001 && (decades < 3 || p % step === 0)) out.push(Number(v.toPrecision(1)))
      }
    return out
  }

  function draw(place, plot) {
    const chart = place.querySelector('.chart')
    const legend = place.querySelector('.legend')
    const shown = plot.series.map(() => true)
    const shape = plot.kind === 'bars' ? bars(plot) : lines(plot)
    const tip = make('div', undefined, 'tip')
    tip.hidden = true
    let u
    const tell = (self) => {
      const idx = self.cursor.idx
      const { left, top } = self.cursor
      if (idx === null || idx === undefined || left < 0) { tip.hidden = true; return }
      const rows = plot.series.flatMap((s, n) => {
        const [v, low, high] = shown[n] ? shape.at(idx, n) : []
        if (v === null || v === undefined || (plot.kind === 'bars' && idx % (shape.count + 1) !== n)) return []
        const row = make('span')
        row.style.setProperty('--c', 'var(' + named(n) + ')')
        row.append(make('i'), s.name + ' ', make('em', figure(v)))
        if (typeof low === 'number' && typeof high === 'number' && low !== high) row.append(' ', make('small', figure(low) + '–' + figure(high)))
        return [[v, row]]
      })
      if (rows.length === 0) { tip.hidden = true; return }
      // As the lines lie above one another.
      rows.sort((a, b) => b[0] - a[0])
      tip.replaceChildren(make('b', shape.title(idx)), ...rows.map(([, row]) => row))
      tip.hidden = false
      const room = chart.clientWidth
      const x = self.over.offsetLeft + left
      const at = x + 14 + tip.offsetWidth > room ? Math.max(0, x - 14 - tip.offsetWidth) : x + 14
      tip.style.left = at + 'px'
      tip.style.top = Math.max(0, Math.min(self.over.offsetTop + top - tip.offsetHeight / 2, chart.clientHeight - tip.offsetHeight)) + 'px'
    }
    const build = () => {
      u?.destroy()
      const colours = plot.series.map((_, n) => colour(named(n)))
      const width = Math.max(200, paper || chart.clientWidth)
      const small = width < 520
      const axis = { stroke: colour('--soft'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line'), width: 1, size: 5 }, font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif', labelSize: 20 }
      const xs = shape.xs
      const x = plot.kind === 'bars'
        ? {
            scale: { time: false, range: () => [-0.75, xs.length - 0.25] },
            axis: {
              grid: { show: false }, ticks: { show: false },
              splits: () => Array.from({ length: shape.groups }, (_, g) => g * (shape.count + 1) + (shape.count - 1) / 2),
              values: (self, splits) => {
                const room = Math.floor((width - 70) / Math.max(1, shape.groups) / 6.5)
                return splits.map((_, g) => {
                  const name = (plot.x.names && plot.x.names[g]) || brief(plot.x.values[g])
                  return name.length > room ? name.slice(0, Math.max(1, room - 1)) + '…' : name
                })
              },
            },
          }
        : {
            scale: { time: false, distr: plot.x.log ? 3 : 1, range: (self, min, max) => {
              if (min === null || max === null) return plot.x.log ? [1, 10] : [0, 1]
              if (plot.x.log) return [min / 1.12, max * 1.12]
              const pad = (max - min) * 0.03 || Math.abs(max) * 0.1 || 1
              return [min - pad, max + pad]
            } },
            axis: {
              // Where something was measured, as long as the labels have room.
              splits: xs.length <= 12
                ? (self) => {
                    let last = -Infinity
                    return xs.filter((v) => {
                      const at = self.valToPos(v, 'x')
                      if (at - last < 38) return false
                      last = at
                      return true
                    })
                  }
                : plot.x.log ? (self, i, min, max) => logSplits(min, max) : undefined,
              filter: (self, splits) => splits,
              values: (self, splits) => splits.map((v) => (plot.x.names && plot.x.names[shape.order[xs.indexOf(v)]]) || brief(v)),
            },
          }
      u = new uPlot({
        width, height: small ? 300 : 380, legend: { show: false }, padding: [12, small ? 8 : 18, 0, 0],
        cursor: { drag: { x: false, y: false }, y: false, points: { size: 9, show: plot.kind === 'lines' }, x: plot.kind === 'lines' },
        scales: {
          x: x.scale,
          y: { distr: plot.y.log ? 3 : 1, range: () => rangeOf(plot, shape, shown) },
        },
        axes: [
          { ...axis, ...x.axis, size: 34, label: plot.x.label },
          {
            ...axis, label: plot.y.label + (plot.y.log ? ' (log)' : ''), size: small ? 46 : 58,
            ...(plot.y.log ? { splits: (self, i, min, max) => logSplits(min, max), filter: (self, splits) => splits } : {}),
            values: (self, splits) => splits.map((v) => (v === null ? '' : brief(v))),
          },
        ],
        series: [{}, ...shape.dots(colours).map((s, n) => ({ ...s, show: shown[n] ?? shown[Math.floor((n - shown.length) / 2)] }))],
        bands: shape.bands(colours),
        hooks: { setCursor: [tell], draw: plot.kind === 'bars' ? [(self) => whiskers(self, shape, colours)] : [] },
      }, shape.data, chart)
      chart.append(tip)
    }
    plot.series.forEach((s, n) => {
      const button = make('button')
      button.type = 'button'
      button.style.setProperty('--c', 'var(' + named(n) + ')')
      button.setAttribute('aria-pressed', 'true')
      button.append(make('i'), s.name)
      button.addEventListener('click', () => {
        // The last one stays: an empty plot says nothing.
        if (shown[n] && shown.filter(Boolean).length === 1) return
        shown[n] = !shown[n]
        button.setAttribute('aria-pressed', String(shown[n]))
        build()
      })
      legend.append(button)
    })
    legend.hidden = plot.series.length < 2
    build()
    return build
  }

  let paper = 0
  const redraw = []
  const reports = [...document.querySelectorAll('script[type="application/json"]')].map((s) => JSON.parse(s.textContent))
  for (const place of document.querySelectorAll('[data-plot]')) {
    const plot = reports[Number(place.dataset.report)].plots[Number(place.dataset.plot)]
    redraw.push(draw(place, plot))
  }
  const all = () => { for (const again of redraw) again() }
  addEventListener('themechange', all)
  let seen = innerWidth
  addEventListener('resize', () => { if (innerWidth !== seen) { seen = innerWidth; all() } })
  // Paper is white and narrow.
  addEventListener('beforeprint', () => { document.documentElement.dataset.theme = 'light'; paper = 660; all() })
  addEventListener('afterprint', () => {
    document.documentElement.dataset.theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
    paper = 0
    all()
  })
  for (const button of document.querySelectorAll('button.save')) {
    button.addEventListener('click', () => {
      const text = document.querySelectorAll('script[type="application/json"]')[Number(button.dataset.report)].textContent
      const link = document.createElement('a')
      link.href = URL.createObjectURL(new Blob([JSON.stringify(JSON.parse(text), undefined, 2) + '\n'], { type: 'application/json' }))
      link.download = button.dataset.name
      link.click()
      setTimeout(() => URL.revokeObjectURL(link.href), 10000)
    })
  }
})()`
