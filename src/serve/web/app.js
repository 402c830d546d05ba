// The conversation: sends it, shows the answer as it comes, and lets it be stopped and tried again.
'use strict';

const $ = (id) => document.getElementById(id);
const { element } = markdown;

const kSettings = ['system', 'thinking', 'temperature', 'top_p', 'top_k', 'max_tokens', 'seed', 'key'];
const messages = [];  // as the API has them, and `failed` of an answer that did not end well
let running = null;   // an AbortController while an answer comes

const setting = (name) => $('set-' + name).value.trim();

const headers = () => {
  const out = { 'Content-Type': 'application/json' };
  if (setting('key')) out.Authorization = 'Bearer ' + setting('key');
  return out;
};

const requestBody = (history) => {
  const body = { messages: [], stream: true, stream_options: { include_usage: true } };
  if (setting('system')) body.messages.push({ role: 'system', content: setting('system') });
  for (const { role, content, reasoning_content } of history) {
    body.messages.push(role === 'assistant' ? { role, content, reasoning_content } : { role, content });
  }
  for (const name of ['temperature', 'top_p', 'top_k', 'max_tokens', 'seed']) {
    if (setting(name) !== '') body[name] = Number(setting(name));
  }
  const thinking = setting('thinking');
  if (thinking === 'off') body.thinking = { type: 'disabled' };
  else if (thinking) body.thinking = { type: 'enabled', effort: thinking };
  return body;
};

// The data of server-sent events, one JSON value at a time.
async function* events(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let buffer = '';
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += decoder.decode(value, { stream: true });
    let end;
    while ((end = buffer.indexOf('\n\n')) >= 0) {
      const event = buffer.slice(0, end);
      buffer = buffer.slice(end + 2);
      if (!event.startsWith('data: ')) continue;
      if (event === 'data: [DONE]') return;
      yield JSON.parse(event.slice(6));
    }
  }
}

const atBottom = () => $('messages').scrollHeight - $('messages').scrollTop - $('messages').clientHeight < 80;
const toBottom = () => { $('messages').scrollTop = $('messages').scrollHeight; };

// An answer on the page. Text is drawn at most once a frame, and long text less often.
class AnswerView {
  constructor() {
    this.thought = element('div', { class: 'thought' });
    this.summary = element('summary', {}, 'Thinking');
    this.details = element('details', { class: 'thinking' }, this.summary, this.thought);
    this.details.hidden = true;
    this.body = element('div', { class: 'body' });
    this.note = element('span', {});
    this.actions = element('div', { class: 'actions' }, this.note);
    this.node = element('article', { class: 'assistant' }, this.details, this.body, this.actions);
    this.reasoning = '';
    this.content = '';
    this.drawn = 0;
  }
  add(delta) {
    this.reasoning += delta.reasoning_content ?? '';
    this.content += delta.content ?? '';
    if (this.waiting) return;
    this.waiting = true;
    const pause = this.content.length > 20000 ? 250 : 0;
    setTimeout(() => requestAnimationFrame(() => this.draw()), Math.max(0, this.drawn + pause - Date.now()));
  }
  draw() {
    this.waiting = false;
    this.drawn = Date.now();
    const follow = atBottom();
    if (this.reasoning) this.details.hidden = false;
    if (this.thought.textContent !== this.reasoning) this.thought.textContent = this.reasoning;
    this.body.replaceChildren(...markdown.render(this.content));
    if (follow) toBottom();
  }
  writing(on) {
    this.body.classList.toggle('writing', on);
    this.summary.textContent = on && !this.content ? 'Thinking ...' : 'Thinking';
  }
  fail(text) { this.body.append(element('p', { class: 'error', role: 'alert' }, text)); }
}

const button = (label, action) => {
  const node = element('button', { type: 'button' }, label);
  node.addEventListener('click', action);
  return node;
};

const setRunning = (controller) => {
  running = controller;
  $('send').hidden = controller !== null;
  $('stop').hidden = controller === null;
};

const failure = async (response) => {
  try {
    return (await response.json()).error.message;
  } catch {
    return 'The server answered ' + response.status;
  }
};

async function answer() {
  for (const old of document.querySelectorAll('.retry')) old.remove();
  const view = new AnswerView();
  $('messages').append(view.node);
  toBottom();
  view.writing(true);
  const controller = new AbortController();
  setRunning(controller);
  const started = performance.now();
  let first = 0, finish = '', usage = null, failed = '';
  try {
    const response = await fetch('v1/chat/completions',
      { method: 'POST', headers: headers(), body: JSON.stringify(requestBody(messages)), signal: controller.signal });
    if (!response.ok) throw new Error(await failure(response));
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      if (event.usage) usage = event.usage;
      const choice = event.choices?.[0];
      if (!choice) continue;
      if (choice.finish_reason) finish = choice.finish_reason;
      if (!first && (choice.delta.content || choice.delta.reasoning_content)) first = performance.now();
      view.add(choice.delta);
      if (view.content) view.summary.textContent = 'Thinking';
    }
  } catch (error) {
    if (error.name === 'AbortError') finish = 'stopped';
    else failed = error.message || String(error);
  }
  setRunning(null);
  view.draw();
  view.writing(false);
  if (failed) view.fail(failed);
  if (view.content || view.reasoning) {
    messages.push({ role: 'assistant', content: view.content, reasoning_content: view.reasoning });
  }
  const notes = [];
  if (finish === 'stopped') notes.push('stopped');
  if (finish === 'length') notes.push('cut at the limit of tokens');
  if (usage) {
    const seconds = (performance.now() - first) / 1000;
    notes.push(usage.completion_tokens + ' tokens');
    if (usage.completion_tokens > 1 && seconds > 0) notes.push(((usage.completion_tokens - 1) / seconds).toFixed(1) + ' a second');
    notes.push('first after ' + ((first - started) / 1000).toFixed(2) + ' s');
  }
  view.note.textContent = notes.join(', ');
  const answered = Boolean(view.content || view.reasoning);
  const retry = button('Retry', () => {
    if (running) return;
    if (answered) messages.pop();
    view.node.remove();
    answer();
  });
  retry.className = 'retry';
  view.actions.append(retry);
  if (view.content) view.actions.append(button('Copy', () => navigator.clipboard.writeText(view.content)));
  $('input').focus();
}

const send = () => {
  const text = $('input').value;
  if (running || !text.trim()) return;
  $('empty')?.remove();
  messages.push({ role: 'user', content: text });
  $('messages').append(element('article', { class: 'user' }, text));
  $('input').value = '';
  resize();
  answer();
};

const stop = () => running?.abort();

const clear = () => {
  stop();
  messages.length = 0;
  $('messages').replaceChildren();
  show('chat');
  $('input').focus();
};

const resize = () => {
  $('input').style.height = 'auto';
  $('input').style.height = $('input').scrollHeight + 2 + 'px';
};

const show = (name) => {
  for (const view of ['chat', 'status']) {
    $(view).hidden = view !== name;
    $('tab-' + view).setAttribute('aria-selected', String(view === name));
    $('tab-' + view).tabIndex = view === name ? 0 : -1;
  }
  document.dispatchEvent(new CustomEvent('view', { detail: name }));
};

$('composer').addEventListener('submit', (event) => { event.preventDefault(); send(); });
$('input').addEventListener('input', resize);
$('input').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
$('stop').addEventListener('click', stop);
$('new').addEventListener('click', clear);
$('open-settings').addEventListener('click', () => $('settings').showModal());
for (const view of ['chat', 'status']) $('tab-' + view).addEventListener('click', () => show(view));
document.querySelector('nav').addEventListener('keydown', (event) => {
  if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
  const other = $('chat').hidden ? 'chat' : 'status';
  show(other);
  $('tab-' + other).focus();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !$('settings').open) stop();
  if (!event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.code === 'KeyN') clear();
  else if (event.code === 'KeyP') $('settings').showModal();
  else return;
  event.preventDefault();
});

$('theme').addEventListener('click', () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  localStorage.setItem('nibble.theme', root.dataset.theme);
});

// Settings stay in this browser; the key only as long as the tab.
const store = (name) => (name === 'key' ? sessionStorage : localStorage);
for (const name of kSettings) {
  $('set-' + name).value = store(name).getItem('nibble.' + name) ?? '';
  $('set-' + name).addEventListener('change', () => store(name).setItem('nibble.' + name, $('set-' + name).value));
}
const theme = localStorage.getItem('nibble.theme');
if (theme) document.documentElement.dataset.theme = theme;

fetch('v1/models', { headers: headers() })
  .then((response) => response.json())
  .then((list) => { $('model').textContent = list.data[0].id; })
  .catch(() => {});
