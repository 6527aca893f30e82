import {play} from "./engine.js";

const byId = id => document.getElementById(id);
const form = document.querySelector("form");
const flags = [...form.querySelectorAll("[name]")]; // controls of flags of try
const fields = [...form.querySelectorAll("[data-field]")]; // controls of words in the policy's text
const policy = form.elements.policy, others = byId("others"), results = byId("results");
const ordinary = new Map(flags.map(control => [control, valueOf(control)]));

// The set-up: a link's names and values, as the flags of try.

function valueOf(control) {
	return control.type === "checkbox" ? String(control.checked) : control.value;
}

function setup() {
	const link = new URLSearchParams({policy: policy.value});
	for (const [control, value] of ordinary) {
		if (control !== policy && valueOf(control) !== value) link.append(control.name, valueOf(control));
	}
	for (const line of others.value.split("\n").filter(line => line.trim())) {
		const [name, ...value] = line.split("=");
		link.append(name.trim(), value.join("="));
	}
	return String(link);
}

// restore sets all controls from a link. What they cannot hold is among the others.
function restore(link) {
	form.reset();
	const rest = [], seen = new Set();
	for (const [name, value] of new URLSearchParams(link)) {
		const control = flags.find(control => control.name === name);
		if (!control || seen.has(name) || control.type === "checkbox" && !/^(true|false)$/.test(value)) rest.push(name + "=" + value);
		else if (control.type === "checkbox") control.checked = value === "true";
		else put(control, value);
		seen.add(name);
	}
	others.value = rest.join("\n");
	showFields();
}

// put sets a control's value, which may not be among its choices yet.
function put(control, value) {
	if (control.options && ![...control.options].some(option => option.value === value)) control.add(new Option(value));
	control.value = value;
}

// The policy's text: words, of which a name may be quoted and arguments stand in brackets.

const words = /(?:"(?:[^"\\]|\\.)*"|`[^`]*`|\([^)]*\)|\S)+/g;

function wordOf(field) {
	return [...policy.value.matchAll(words)].find(([word]) => word.startsWith(field + "="));
}

function showFields() {
	for (const control of fields) put(control, wordOf(control.dataset.field)?.[0].slice(control.dataset.field.length + 1) ?? "");
	for (const slider of form.querySelectorAll("[type=range]")) place(slider);
}

function replaceWord(control) {
	const field = control.dataset.field, old = wordOf(field), text = policy.value, value = control.value.trim();
	const word = value && field + "=" + value;
	if (!old) policy.value = (text.trimEnd() + " " + word).trim();
	else policy.value = (text.slice(0, old.index) + word + text.slice(old.index + old[0].length + !word)).trim();
}

// Sliders, over the round values of a text box.

function amount(text) { // of a number or a time, to compare
	const units = {h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, "µs": 1e-6, ns: 1e-9};
	return [...text.matchAll(/([\d.]+)(ms|us|µs|ns|h|m|s)?/g)].reduce((sum, [, n, unit]) => sum + n * (units[unit] ?? 1), 0);
}

function place(slider) {
	const box = slider.parentElement.querySelector("input"), steps = box.dataset.steps.split(" ").map(amount);
	const above = steps.findIndex(step => step >= amount(box.value));
	slider.value = above < 0 || box.value === "unlimited" ? steps.length - 1 : above;
	slider.setAttribute("aria-valuetext", box.value);
}

for (const box of form.querySelectorAll("[data-steps]")) {
	const steps = box.dataset.steps.split(" "), slider = document.createElement("input");
	Object.assign(slider, {type: "range", min: 0, max: steps.length - 1, ariaLabel: box.parentElement.textContent.trim()});
	slider.addEventListener("input", event => {
		event.stopPropagation();
		box.value = steps[slider.value];
		box.dispatchEvent(new Event("input", {bubbles: true}));
	});
	box.parentElement.append(slider);
}

form.addEventListener("submit", event => event.preventDefault());
form.addEventListener("input", event => {
	if (event.target.dataset.field) replaceWord(event.target);
	else if (event.target === policy) showFields();
	for (const slider of form.querySelectorAll("[type=range]")) place(slider);
	start();
});
addEventListener("hashchange", () => { restore(location.hash.slice(1)); start(); });

// The run under way. Another one ends it: what it still yields is not shown.

let run;

async function start() {
	const link = setup();
	history.replaceState(null, "", "#" + link);
	byId("link").textContent = location.href;
	run?.abort();
	const mine = run = new AbortController();
	results.ariaBusy = "true";
	let last;
	try {
		await new Promise(resolve => setTimeout(resolve, 40)); // a slider that moves on
		if (mine === run) for await (const scene of play(link, mine.signal)) {
			if (mine !== run) return;
			if (scene.error) throw new Error(scene.error);
			show(last = scene);
		}
		if (mine === run && !last?.done) throw new Error("The simulation was cut short.");
	} catch (error) {
		if (mine === run) fail(error.message, last);
	}
}

function fail(message, last) {
	const flag = message.match(/^-([a-z-]+)/)?.[1];
	invalid(flag && (flags.find(control => control.name === flag) ?? others));
	byId("error").textContent = message;
	results.ariaBusy = "false";
	results.classList.toggle("old", !last);
}

// invalid marks the control that is wrong, if there is one, and no other.
function invalid(wrong) {
	for (const control of form.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
	wrong?.setAttribute("aria-invalid", "true");
}

function show(scene) {
	const {rows, choose} = scene.answer, yours = rows[1];
	invalid();
	byId("error").textContent = "";
	results.ariaBusy = "false";
	results.classList.remove("old");
	verdict(byId("state"), yours);
	byId("runs").textContent = (scene.seeds < scene.of ? scene.seeds + " of " : "") + scene.of + (scene.of > 1 ? " runs" : " run");
	byId("why").textContent = yours.why ?? "";
	byId("title").textContent = scene.title + ".";
	byId("choose").textContent = choose;
	byId("rows").replaceChildren(...rows.map(row => line(row, row === yours)));
	byId("pictures").innerHTML = scene.pictures.join(""); // chart.go escapes what is in them
	byId("notes").replaceChildren(...scene.notes.map(note => Object.assign(document.createElement("p"), {textContent: note})));
	byId("text").textContent = scene.policy.text;
	byId("go").textContent = scene.policy.go;
	byId("command").textContent = scene.command;
}

function verdict(element, row) {
	element.textContent = (row.recovers ? "✓ " : "✗ ") + row.verdict;
	element.className = row.recovers ? "good" : "bad";
}

function line(row, yours) {
	const tr = document.createElement("tr");
	const cells = [row.policy + (yours ? " (yours)" : ""), "", Math.round(row.stays_down * row.seeds) + " of " + row.seeds,
		(100 * row.lost_share).toFixed(1) + " %", row.load.toFixed(2),
		row.p99_ms < 999.5 ? row.p99_ms.toFixed(0) + " ms" : (row.p99_ms / 1000).toFixed(1) + " s"];
	for (const text of cells) tr.insertCell().textContent = text;
	verdict(tr.cells[1], row);
	tr.className = yours ? "yours" : "";
	return tr;
}

byId("change").addEventListener("click", () => form.scrollIntoView()); // on a phone the results come first

for (const button of document.querySelectorAll("[data-copy]")) {
	button.addEventListener("click", async () => {
		const text = byId(button.dataset.copy);
		getSelection().selectAllChildren(text);
		try {
			await navigator.clipboard.writeText(text.textContent);
			button.textContent = "Copied";
		} catch { // it is selected
			button.textContent = "Press Ctrl+C";
		}
		setTimeout(() => { button.textContent = "Copy"; }, 2000);
	});
}

restore(location.hash.slice(1));
start();
