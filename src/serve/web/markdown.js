// Markdown of an answer, as DOM nodes. What a model writes is only ever the text of a node: nothing here parses HTML.
'use strict';

const markdown = (() => {
  const element = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };

  // Only addresses that lead to a page; anything else stays the text it is.
  const link = (label, target) => {
    let url;
    try {
      url = new URL(target);
    } catch {
      return null;
    }
    if (url.protocol !== 'https:' && url.protocol !== 'http:') return null;
    return element('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer' }, label);
  };

  const kInline = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*([^*]+)\*\*|__([^_]+)__|~~([^~]+)~~|\*([^*\s][^*]*)\*|\[([^\]\n]+)\]\(([^)\s]+)\)/g;

  const inline = (text) => {
    const out = [];
    let at = 0;
    for (const match of text.matchAll(kInline)) {
      if (match.index > at) out.push(text.slice(at, match.index));
      at = match.index + match[0].length;
      if (match[2] !== undefined) out.push(element('code', {}, match[2].trim() || match[2]));
      else if (match[3] ?? match[4]) out.push(element('strong', {}, ...inline(match[3] ?? match[4])));
      else if (match[5]) out.push(element('s', {}, match[5]));
      else if (match[6]) out.push(element('em', {}, ...inline(match[6])));
      else out.push(link(match[7], match[8]) ?? match[0]);
    }
    if (at < text.length) out.push(text.slice(at));
    return out;
  };

  const kWords = new Set(('and as async await auto bool break case catch char class const continue def default delete do double elif ' +
    'else enum except export extern false finally float fn for from func function go if impl import in int interface is ' +
    'lambda let long match mod mut namespace new nil none not null or package pass private protected pub public raise ' +
    'return self short static struct super switch template this throw trait true try type typedef typename union unsigned ' +
    'use using var virtual void where while with yield None True False SELECT FROM WHERE INSERT UPDATE JOIN ON AND OR').split(' '));
  const kCode = /(\/\/[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\/)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|(\b\d[\w.]*\b)|([A-Za-z_]\w*)/g;

  // Enough colour to read by; no language is known in particular.
  const highlighted = (code) => {
    const out = [];
    let at = 0;
    for (const match of code.matchAll(kCode)) {
      const kind = match[1] ? 'comment' : match[2] ? 'string' : match[3] ? 'number' : kWords.has(match[4]) ? 'keyword' : '';
      if (!kind) continue;
      if (match.index > at) out.push(code.slice(at, match.index));
      out.push(element('span', { class: kind }, match[0]));
      at = match.index + match[0].length;
    }
    out.push(code.slice(at));
    return out;
  };

  const codeBlock = (language, code) => {
    const copy = element('button', { type: 'button' }, 'Copy');
    copy.addEventListener('click', async () => {
      await navigator.clipboard.writeText(code);
      copy.textContent = 'Copied';
    });
    return element('div', { class: 'code' }, element('div', { class: 'bar' }, element('span', {}, language), copy),
      element('pre', { tabindex: '0' }, element('code', {}, ...highlighted(code))));
  };

  const kItem = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

  // Lines of a list, from `at`; deeper ones are lists within the item above.
  const list = (lines, at, indent) => {
    const first = lines[at].match(kItem);
    const node = element(/\d/.test(first[2]) ? 'ol' : 'ul');
    if (/^\d/.test(first[2])) node.setAttribute('start', parseInt(first[2], 10));
    while (at < lines.length) {
      const match = lines[at].match(kItem);
      if (!match || match[1].length < indent) break;
      if (match[1].length > indent + 1 && node.lastChild) {
        const [inner, next] = list(lines, at, match[1].length);
        node.lastChild.append(inner);
        at = next;
        continue;
      }
      node.append(element('li', {}, ...inline(match[3])));
      ++at;
    }
    return [node, at];
  };

  const cells = (line) => line.trim().replace(/^\||\|$/g, '').split('|').map((cell) => cell.trim());
  const table = (lines) => {
    const row = (line, name) => element('tr', {}, ...cells(line).map((cell) => element(name, {}, ...inline(cell))));
    return element('table', {}, element('thead', {}, row(lines[0], 'th')),
      element('tbody', {}, ...lines.slice(2).map((line) => row(line, 'td'))));
  };

  const render = (text) => {
    const out = [];
    const lines = text.split('\n');
    let at = 0;
    while (at < lines.length) {
      const line = lines[at];
      const fence = line.match(/^\s*(```+|~~~+)\s*([\w+#.-]*)/);
      if (fence) {
        let end = at + 1;
        while (end < lines.length && !lines[end].trim().startsWith(fence[1])) ++end;
        out.push(codeBlock(fence[2], lines.slice(at + 1, end).join('\n')));
        at = end + 1;
        continue;
      }
      const heading = line.match(/^(#{1,6})\s+(.*)$/);
      if (heading) out.push(element('h' + Math.min(heading[1].length, 4), {}, ...inline(heading[2])));
      else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) out.push(element('hr'));
      if (heading || /^\s*([-*_])(\s*\1){2,}\s*$/.test(line) || !line.trim()) {
        ++at;
        continue;
      }
      if (kItem.test(line)) {
        const [node, next] = list(lines, at, line.match(kItem)[1].length);
        out.push(node);
        at = next;
        continue;
      }
      let end = at + 1;
      const starts = (l) => !l.trim() || /^\s*(```|~~~)/.test(l) || /^#{1,6}\s/.test(l) || kItem.test(l);
      while (end < lines.length && !starts(lines[end])) ++end;
      const block = lines.slice(at, end);
      if (block.length > 1 && block[0].includes('|') && /^[\s|:-]+$/.test(block[1]) && block[1].includes('-')) out.push(table(block));
      else if (line.startsWith('>')) out.push(element('blockquote', {}, ...render(block.map((l) => l.replace(/^>\s?/, '')).join('\n'))));
      else out.push(element('p', {}, ...inline(block.join('\n'))));
      at = end;
    }
    return out;
  };

  return { render, element };
})();
