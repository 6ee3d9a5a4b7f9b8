// The site of docs: `task docs` builds it. Its navigation is the folders below, in this order,
// and the first heading of each of their pages.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import path from 'node:path'

const docs = path.resolve(import.meta.dirname, '..')
const root = path.dirname(docs)
const repository = 'https://github.com/harpagon/harpagon'
const folders = {
  tutorials: 'Tutorials',
  'how-to': 'How to',
  reference: 'Reference',
  explanation: 'Explanation',
  results: 'Results',
  rfcs: 'Decisions',
}

const title = (page) => readFileSync(path.join(docs, page), 'utf8').match(/^# (.+)$/m)?.[1].replaceAll('`', '') ?? path.basename(page, '.md')
const address = (page) => page.replace(/README\.md$/, 'index.md')
const item = (page) => ({ text: title(page), link: '/' + address(page).replace(/(index)?\.md$/, '') })
const sections = Object.entries(folders).map(([folder, text]) => {
  const pages = readdirSync(path.join(docs, folder)).filter((name) => name.endsWith('.md')).sort().map((name) => item(`${folder}/${name}`))
  const index = `/${folder}/`
  return { text, link: pages.find((p) => p.link === index)?.link, items: pages.filter((p) => p.link !== index), collapsed: folder !== 'tutorials' }
})
sections.find((s) => s.text === folders.explanation).items.unshift(item('architecture.md'))

// A folder is its README. Links to examples and code, and to folders without one, lead to the
// repository. The build fails where what a page links to is not there; the tests of the module
// check links to headings.
function links(md) {
  md.core.ruler.push('links', ({ tokens, env }) => {
    for (const token of tokens.flatMap((t) => t.children ?? [])) {
      const href = token.type === 'link_open' ? token.attrGet('href') : undefined
      if (!href || /^([a-z]+:|#|\/)/.test(href)) continue
      const [file, heading] = decodeURI(href).split('#')
      const target = path.resolve(docs, path.dirname(env.relativePath), file)
      if (!existsSync(target)) throw new Error(`${env.relativePath} links to ${href}, which is not there`)
      const page = existsSync(path.join(target, 'README.md')) ? path.join(target, 'README.md') : target
      if (page.startsWith(docs + path.sep) && statSync(page).isFile()) token.attrSet('href', '/' + address(path.relative(docs, page)) + (heading ? '#' + heading : ''))
      else token.attrSet('href', `${repository}/blob/main/${path.relative(root, target)}${heading ? '#' + heading : ''}`)
    }
  })
}

// Pages lie above node_modules, and what is made of them for rendering here lies beside it.
const vue = {
  name: 'vue',
  enforce: 'pre',
  resolveId: (id, _, { ssr }) => (ssr && /^vue($|\/)/.test(id) ? { id, external: true } : undefined),
}

export default {
  title: 'Harpagon',
  description: 'Pipelines of neural networks, for the least money that keeps one latency objective',
  head: [['style', {}, readFileSync(path.join(import.meta.dirname, 'style.css'), 'utf8')]],
  outDir: path.join(root, 'bin/docs'),
  cacheDir: path.join(root, 'bin/docs-cache'),
  rewrites: address,
  vite: { plugins: [vue] },
  markdown: {
    config: links,
    // As GitHub names headings.
    anchor: { slugify: (text) => text.toLowerCase().replace(/[^a-z0-9 _-]/g, '').replaceAll(' ', '-') },
  },
  themeConfig: {
    nav: sections.map(({ text, link, items }) => ({ text, link: link ?? items[0].link, activeMatch: `^${path.posix.dirname(items.at(-1).link)}/` })),
    sidebar: sections,
    outline: 'deep',
    search: { provider: 'local', options: { miniSearch: { searchOptions: { fuzzy: false } } } },
    socialLinks: [{ icon: 'github', link: repository }],
  },
}
