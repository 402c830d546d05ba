// The status view: /metrics once a second, drawn.
'use strict';

(() => {
  const kSeconds = 120;
  const history = [];  // {time, values}

  const parse = (text) => {
    const values = {};
    for (const line of text.split('\n')) {
      const match = line.match(/^([\w:]+)(\{[^}]*\})? (\S+)$/);
      if (match && !match[1].endsWith('_bucket')) values[match[1]] = (values[match[1]] ?? 0) + Number(match[3]);
    }
    return values;
  };

  const now = (name) => (h) => h.values[name];
  const rate = (name) => (h, before) => before && (h.values[name] - before.values[name]) / (h.time - before.time);
  const share = (part, whole) => (h) => (h.values[whole] ? (100 * h.values[part]) / h.values[whole] : 0);

  const plots = [
    { title: 'Sequences running', value: now('vllm:num_requests_running'), digits: 0 },
    { title: 'Sequences waiting', value: now('vllm:num_requests_waiting'), digits: 0 },
    { title: 'Generated tokens a second', value: rate('vllm:generation_tokens_total'), digits: 1 },
    { title: 'Prompt tokens a second', value: rate('vllm:prompt_tokens_total'), digits: 1 },
    { title: 'Sequences in a step', value: (h, b) => b && h.values['nibble:steps'] > b.values['nibble:steps']
      ? (h.values['vllm:generation_tokens_total'] - b.values['vllm:generation_tokens_total']) / (h.values['nibble:steps'] - b.values['nibble:steps']) : 0, digits: 1 },
    { title: 'Cache in use, %', value: (h) => 100 * h.values['vllm:kv_cache_usage_perc'], digits: 1, top: 100 },
    { title: 'Prompt tokens found in the cache, %', value: share('vllm:prefix_cache_hits_total', 'vllm:prefix_cache_queries_total'), digits: 1, top: 100 },
  ];
  for (const plot of plots) {
    plot.figure = markdown.element('b', {}, '-');
    plot.canvas = markdown.element('canvas', { role: 'img', 'aria-label': plot.title });
    $('plots').append(markdown.element('figure', {},
      markdown.element('figcaption', {}, markdown.element('span', {}, plot.title), plot.figure), plot.canvas));
  }

  const draw = (plot) => {
    const { canvas } = plot;
    const scale = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext('2d');
    pen.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const points = history.map((h, i) => plot.value(h, history[i - 1]) ?? NaN);
    const last = points[points.length - 1];
    plot.figure.textContent = Number.isFinite(last) ? last.toFixed(plot.digits) : '-';
    const most = Math.max(1, ...points.filter(Number.isFinite));
    const top = plot.top ?? (plot.digits === 0 ? most + 1 : most * 1.1);
    pen.strokeStyle = style.getPropertyValue('--line');
    for (const y of [0.5, height / 2, height - 0.5]) {
      pen.beginPath();
      pen.moveTo(0, y);
      pen.lineTo(width, y);
      pen.stroke();
    }
    pen.fillStyle = style.getPropertyValue('--quiet');
    pen.font = '11px system-ui, sans-serif';
    pen.fillText(top >= 10 ? String(Math.round(top)) : top.toFixed(1), 2, 12);
    pen.strokeStyle = style.getPropertyValue('--accent');
    pen.lineWidth = 1.5;
    pen.beginPath();
    let open = false;
    const end = history[history.length - 1].time;
    points.forEach((value, i) => {
      if (!Number.isFinite(value)) return;
      const x = width * (1 - (end - history[i].time) / kSeconds);
      const y = height - 1 - (height - 2) * Math.min(1, value / top);
      open ? pen.lineTo(x, y) : pen.moveTo(x, y);
      open = true;
    });
    pen.stroke();
  };

  const table = (values) => {
    const rows = [
      ['Sequences ended', values['vllm:request_success_total'] ?? 0],
      ['Tokens generated', values['vllm:generation_tokens_total']],
      ['Prompt tokens run', values['vllm:prompt_tokens_total']],
      ['Steps', values['nibble:steps']],
      ['Made way for others', values['vllm:num_preemptions_total']],
      ['Refused, queue full', values['vllm:admission_rejections_total']],
      ['First token, mean s', values['vllm:time_to_first_token_seconds_sum'] / values['vllm:time_to_first_token_seconds_count']],
      ['Between tokens, mean s', values['vllm:inter_token_latency_seconds_sum'] / values['vllm:inter_token_latency_seconds_count']],
      ['Pages in all', values['nibble:pages']],
      ['Pages kept for reuse', values['nibble:pages_idle']],
      ['Checkpoints', values['nibble:checkpoints']],
      ['Connections', values['nibble:connections']],
    ];
    $('figures').tBodies[0].replaceChildren(...rows.map(([name, value]) => markdown.element('tr', {},
      markdown.element('td', {}, name),
      markdown.element('td', {}, !Number.isFinite(value) ? '-' : Number.isInteger(value) ? value.toLocaleString('en') : value.toFixed(4)))));
  };

  const look = async () => {
    try {
      const response = await fetch('metrics', { headers: headers() });
      if (!response.ok) throw new Error(response.status === 401 ? 'The server asks for an API key: Parameters.' : 'The server answered ' + response.status);
      const values = parse(await response.text());
      history.push({ time: performance.now() / 1000, values });
      while (history[0].time < performance.now() / 1000 - kSeconds) history.shift();
      $('status-note').textContent = 'The last two minutes, a point a second.';
      plots.forEach(draw);
      table(values);
    } catch (error) {
      $('status-note').textContent = error.message;
    }
  };

  let timer = null;
  document.addEventListener('view', (event) => {
    clearInterval(timer);
    if (event.detail !== 'status') return;
    look();
    timer = setInterval(look, 1000);
  });
})();
