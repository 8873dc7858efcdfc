"use strict";

// Play the adaptive stream with hls.js, with a seek bar, menus and keys.
const find = (selector) => document.querySelector(selector);
const player = find("#player"), video = find("video"), bar = find("#seek input");
const SEEK_S = 5;

function report(text) {
  find("#problem").textContent = text;
  find("#problem").hidden = false;
}

const togglePlay = () => (video.paused ? video.play() : video.pause());
const toggleMute = () => { video.muted = !video.muted; };
const toggleFullscreen = () => (document.fullscreenElement ? document.exitFullscreen() : player.requestFullscreen());
const seekBy = (seconds) => { video.currentTime = Math.min(Math.max(video.currentTime + seconds, 0), video.duration); };

function showState() {
  player.classList.toggle("paused", video.paused);
  player.classList.toggle("muted", video.muted);
  find("#play").ariaLabel = video.paused ? "Play" : "Pause";
  find("#mute").ariaLabel = video.muted ? "Unmute" : "Mute";
  if (!video.paused) find("#start").hidden = true;
}

function showTime() {
  if (!video.duration) return;
  const { buffered, currentTime, duration } = video;
  bar.max = duration;
  bar.value = currentTime;
  bar.ariaValueText = `${clock(currentTime)} of ${clock(duration)}`;
  find("#clock").textContent = `${clock(currentTime)} / ${clock(duration)}`;
  const last = [...Array(buffered.length).keys()].find((range) => buffered.end(range) >= currentTime);
  find("#seek").style.setProperty("--played", currentTime / duration);
  find("#seek").style.setProperty("--buffered", last === undefined ? 0 : buffered.end(last) / duration);
}

function bindControls() {
  for (const id of ["start", "play"]) find(`#${id}`).addEventListener("click", togglePlay);
  video.addEventListener("click", togglePlay);
  find("#mute").addEventListener("click", toggleMute);
  find("#fullscreen").addEventListener("click", toggleFullscreen);
  bar.addEventListener("input", () => { video.currentTime = Number(bar.value); });
  for (const name of ["play", "pause", "volumechange"]) video.addEventListener(name, showState);
  for (const name of ["timeupdate", "durationchange", "progress", "seeking"]) video.addEventListener(name, showTime);
  video.addEventListener("error", () => report(`The film cannot be played: ${video.error.message}`));
  player.addEventListener("keydown", onKey);
}

function onKey(event) {
  if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
  const isButton = event.target.tagName === "BUTTON"; // its own key is the space bar
  const actions = {
    k: togglePlay, m: toggleMute, f: toggleFullscreen, ...(isButton ? {} : { " ": togglePlay }),
    ArrowLeft: () => seekBy(-SEEK_S), ArrowRight: () => seekBy(SEEK_S),
  };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
  if (event.key.startsWith("Arrow")) thumbnails.show(video.currentTime, Thumbnails.HIDE_AFTER_MS);
}

// Fill a menu with [value, text] pairs, and hide it if there is nothing to choose.
function fill(menu, choices, chosen, choose) {
  menu.replaceChildren(...choices.map(([value, text]) => new Option(text, value)));
  menu.value = chosen;
  menu.onchange = () => choose(Number(menu.value));
  menu.parentElement.hidden = choices.length < 2;
}

function bindMenus(hls) {
  const named = (tracks) => tracks.map((track, place) => [place, track.name]);
  hls.on(Hls.Events.MANIFEST_PARSED, () => {
    const heights = hls.levels.map((level, place) => [place, `${Math.min(level.width, level.height)}p`]);
    fill(find("#quality"), [[-1, "Auto"], ...heights.reverse()], -1, (level) => { hls.nextLevel = level; });
  });
  hls.on(Hls.Events.LEVEL_SWITCHED, (_, { level }) => {
    const { width, height } = hls.levels[level];
    find("#quality option").textContent = hls.autoLevelEnabled ? `Auto (${Math.min(width, height)}p)` : "Auto";
  });
  hls.on(Hls.Events.AUDIO_TRACKS_UPDATED, (_, { audioTracks }) => {
    fill(find("#sound"), named(audioTracks), Math.max(hls.audioTrack, 0), (track) => { hls.audioTrack = track; });
  });
  hls.on(Hls.Events.SUBTITLE_TRACKS_UPDATED, (_, { subtitleTracks }) => {
    const choices = [[-1, "Off"], ...named(subtitleTracks)];
    fill(find("#subtitles"), choices, hls.subtitleTrack, (track) => { hls.subtitleTrack = track; });
  });
}

function open() {
  if (!Hls.isSupported()) {
    report("This browser cannot play the stream: it has no Media Source Extensions with H.264.");
    return;
  }
  // A worker of hls.js would need a blob: URL, which the page's policy forbids. Only MPEG-TS needs a worker.
  const hls = new Hls({ enableWorker: false, capLevelToPlayerSize: true });
  hls.on(Hls.Events.ERROR, (_, { fatal, type, details }) => {
    // A choice in a menu stops the requests of the former choice: that is no error.
    if (details === Hls.ErrorDetails.INTERNAL_ABORTED) return;
    console.warn(type, details);
    if (fatal) report(`The film cannot be played: ${details}`);
  });
  bindMenus(hls);
  hls.loadSource(video.dataset.stream);
  hls.attachMedia(video);
}

const thumbnails = new Thumbnails(bar, find("#thumbnail"));
bindControls();
open();
thumbnails.load(video.dataset.thumbnails).catch((error) => report(`There are no thumbnails: ${error.message}`));
fetch("outputs.json").then((answer) => answer.text()).then((text) => { find("#request").textContent = text; }, report);
