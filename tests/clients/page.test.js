// The page in Chromium: a person who asks, stops, retries, looks at the status. With NIBBLE_SCREENSHOTS=FOLDER pictures
// are left there, to be looked at.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { chromium } from 'playwright-core';

import { startServer } from './server.js';

const kPatience = 60_000;
let server, browser;

before(async () => {
  server = await startServer();
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
});
after(async () => {
  await browser?.close();
  assert.equal(await server.stop(), 0);
});

// A page on which nothing may go wrong unseen.
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 760 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(kPatience);
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => { if (message.type() === 'error') faults.push(message.text()); });
  page.on('request', (request) => {
    if (!request.url().startsWith(server.url) && !request.url().startsWith('data:')) faults.push('asked ' + request.url());
  });
  await page.goto(server.url);
  return { page, faults, close: () => context.close() };
}

const picture = async (page, name) => {
  if (process.env.NIBBLE_SCREENSHOTS) await page.screenshot({ path: path.join(process.env.NIBBLE_SCREENSHOTS, name + '.png') });
};

// Greedy and short, by the page's own dialog.
async function set(page, values) {
  await page.keyboard.press('Alt+P');
  for (const [name, value] of Object.entries(values)) {
    const field = page.locator('#set-' + name);
    if (name === 'thinking') await field.selectOption(value);
    else { await field.fill(String(value)); await field.dispatchEvent('change'); }
  }
  await page.keyboard.press('Escape');
}

const ask = async (page, text) => {
  await page.locator('#input').fill(text);
  await page.keyboard.press('Enter');
};

test('asking by keyboard alone: thinking is folded, the answer is there', async () => {
  const { page, faults, close } = await open();
  await set(page, { temperature: 0 });
  await page.locator('#input').focus();
  await page.keyboard.type('hi!');
  await page.keyboard.press('Enter');
  await page.getByText('Hello! I am a tiny Kimi K3 style model').waitFor();
  await page.locator('.retry').waitFor();
  const details = page.locator('details.thinking');
  assert.equal(await details.getAttribute('open'), null);
  assert.equal(await page.locator('.thought').isVisible(), false);
  await details.locator('summary').focus();
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('.thought').isVisible(), true);
  assert.match(await page.locator('.actions').innerText(), /37 tokens/);
  await picture(page, 'light');
  await page.locator('#theme').click();
  await picture(page, 'dark');
  await close();
  assert.deepEqual(faults, []);
});

test('stopping an answer, and trying again', async () => {
  const { page, faults, close } = await open();
  await page.route('**/chat/completions', async (route) => {  // an answer that would go on for long
    const body = JSON.parse(route.request().postData());
    await route.continue({ postData: JSON.stringify({ ...body, ignore_eos: true }) });
  });
  await ask(page, 'hi!');
  await page.locator('#stop').waitFor();
  await page.waitForFunction(() => document.querySelector('.thought').textContent.length > 5);
  await page.keyboard.press('Escape');
  await page.getByText('stopped').waitFor();
  assert.equal(await page.locator('#send').isVisible(), true);
  await page.unroute('**/chat/completions');
  await set(page, { temperature: 0 });
  await page.locator('.retry').click();
  await page.getByText('Hello! I am a tiny Kimi K3 style model').waitFor();
  assert.equal(await page.locator('.assistant').count(), 1);
  await close();
  assert.deepEqual(faults, []);
});

// What a model could write, served in its place.
const answered = (content) => [{ choices: [{ index: 0, delta: { role: 'assistant', content } }] },
  { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }].map((e) => 'data: ' + JSON.stringify(e) + '\n\n').join('') + 'data: [DONE]\n\n';

async function showing(content, options) {
  const opened = await open(options);
  await opened.page.route('**/chat/completions', (route) => route.fulfill({ contentType: 'text/event-stream', body: answered(content) }));
  await ask(opened.page, 'show');
  await opened.page.locator('.retry').waitFor();
  return opened;
}

test('nothing that a model writes becomes markup or script', async () => {
  const hostile = '<img src=x onerror="window.bad=1"><script>window.bad=1</script> [a](javascript:window.bad=1) ' +
    '[b](data:text/html,x) **<b onclick=1>** `<i>`\n\n```html"><script>window.bad=1</script>\n<script>window.bad=1</script>\n```\n' +
    '| <script> | b |\n|---|---|\n| <img src=x> | d |\n\n- <svg onload=window.bad=1>\n\n# <h1 onclick=1>';
  const { page, faults, close } = await showing(hostile);
  assert.equal(await page.evaluate(() => window.bad), undefined);
  for (const name of ['img', 'script', 'svg', 'b', 'i']) assert.equal(await page.locator('.body ' + name).count(), 0, name);
  assert.equal(await page.locator('.body a').count(), 0);
  assert.equal(await page.locator('.body *').evaluateAll((all) => all.some((n) => [...n.attributes].some((a) => a.name.startsWith('on')))), false);
  await close();
  assert.deepEqual(faults, []);
});

const kSample = 'A **bold** word, *another*, `code` and [a link](https://example.org/a).\n\n## A heading\n\n1. first\n2. second\n   - inner\n\n' +
  '> quoted\n\n| name | value |\n|---|---|\n| a | 1 |\n\n```python\ndef greet(name):  # says hello\n    return f"hello {name}" * 2\n```\n\n---\nThe end.';

test('Markdown is drawn', async () => {
  const { page, faults, close } = await showing(kSample);
  const count = (what) => page.locator('.body ' + what).count();
  for (const [what, n] of Object.entries({ strong: 1, em: 1, h2: 1, 'ol > li': 2, 'ol ul > li': 1, blockquote: 1, td: 2, th: 2, pre: 1, hr: 1, a: 1 })) {
    assert.equal(await count(what), n, what);
  }
  assert.equal(await page.locator('.body a').getAttribute('rel'), 'noopener noreferrer');
  assert.match(await page.locator('pre').innerText(), /^def greet\(name\):  # says hello\n    return f"hello \{name\}" \* 2$/);
  assert.ok(await count('pre .keyword') >= 2);
  await picture(page, 'markdown');
  await close();
  assert.deepEqual(faults, []);
});

test('on a phone nothing is wider than the screen', async () => {
  const phone = { viewport: { width: 360, height: 700 }, colorScheme: 'dark' };
  const { page, faults, close } = await showing(kSample + '\n\n' + 'x'.repeat(500), phone);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  for (const id of ['send', 'input', 'open-settings', 'tab-status']) assert.equal(await page.locator('#' + id).isVisible(), true, id);
  const tops = await page.locator('header button').evaluateAll((all) => all.map((b) => b.getBoundingClientRect().top));
  assert.equal(new Set(tops).size, 1, 'one row of buttons');
  await page.locator('#messages').evaluate((m) => { m.scrollTop = 0; });
  await picture(page, 'phone');
  await page.keyboard.press('Alt+P');
  assert.equal(await page.locator('#settings').evaluate((d) => d.scrollHeight <= d.clientHeight), true, 'all parameters in sight');
  await picture(page, 'parameters');
  await close();
  assert.deepEqual(faults, []);
});

test('the status view draws what the server does', async () => {
  const { page, faults, close } = await open();
  await set(page, { temperature: 0 });
  await page.locator('#tab-status').click();
  await page.getByText('The last two minutes').waitFor();
  await page.waitForFunction(() => document.querySelectorAll('figcaption b')[2].textContent === '0.0');  // idle for a second
  // The curve of generated tokens, blue, in the upper quarter of its plot.
  const risen = () => {
    const canvas = document.querySelectorAll('canvas')[2];
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, Math.floor(canvas.height / 4));
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 100 && data[i + 2] - data[i] > 80) return true;
    return false;
  };
  assert.equal(await page.evaluate(risen), false);
  await page.locator('#tab-chat').click();
  await ask(page, 'hi!');
  await page.locator('.retry').waitFor();
  await page.locator('#tab-status').click();
  await page.waitForFunction(risen);
  assert.match(await page.locator('#figures').innerText(), /Tokens generated\s+[1-9]/);
  await picture(page, 'status');
  await close();
  assert.deepEqual(faults, []);
});

test('an error of the server is said', async () => {
  const { page, close } = await open();
  await set(page, { temperature: 5 });
  await ask(page, 'hi!');
  await page.getByText('from 0 to 2').waitFor();
  await close();
});
