// Plays a manifest with one of three players, and reports what happened.
// Query: player=hls.js|dash.js|shaka, url, rate, switches=1 (another level for each segment), tour=1 (seek and
// change the sound after the end), text=1 (show the first subtitles), trick=1 (fast playback with keyframes, in Shaka
// Player). The report becomes `window.report`.

const query = new URLSearchParams(location.search);
const video = document.querySelector("video");
const report = {
  errors: [], ended: 0, duration: 0, buffered: [], pictures: 0, dropped: 0, levels: [], played_levels: [],
  sounds: [], played_sound: null, texts: [], cues: [], waits: 0, size: [0, 0], trickPlay: 0,
  keyframe_ranges: [],
};
window.progress = () => JSON.stringify({
  time: video.currentTime, duration: video.duration, ended: video.ended, paused: video.paused, state: video.readyState,
  buffered: ranges(), report,
});

const script = (name) => new Promise((resolve, reject) => {
  const element = document.createElement("script");
  element.src = `/lib/${name}`;
  element.onload = resolve;
  element.onerror = () => reject(new Error(`no ${name}`));
  document.head.append(element);
});
const event = (name) => new Promise((resolve) => video.addEventListener(name, resolve, { once: true }));
const fail = (text) => report.errors.push(String(text));
const next = (index, count) => (index + 1) % count;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// Playback begins when this many seconds or the whole film are buffered, so that a slow machine causes no stall.
const BUFFER_S = 60;

// Each adapter returns setSound(index) and setText(index), and fills the report.
const adapters = {
  async "hls.js"(url) {
    await script("hls.js/dist/hls.min.js");
    // The player asks its ABR controller for a level before it loads a fragment. (If `loadLevel` is set in an event,
    // it loads fragments twice. It also does so where Chromium's buffer ends 1 µs before the fragment's end.)
    let end = 0;
    class Switching extends Hls.DefaultConfig.abrController {
      get nextAutoLevel() {
        const group = hls.levels[0].audioGroups?.[0];  // the sound must keep its codec
        const alike = [...hls.levels.keys()].filter((level) => hls.levels[level].audioGroups?.[0] === group);
        const { fragments } = alike.map((level) => hls.levels[level].details).find(Boolean) ?? { fragments: [] };
        const loaded = fragments.filter((frag) => frag.end < end + 0.1).length;
        return alike[loaded % alike.length];
      }

      set nextAutoLevel(_) {}
    }
    const hls = new Hls({
      startLevel: 0, abrEwmaDefaultEstimate: 1e9, maxBufferLength: BUFFER_S, ...(query.has("switches") ? { abrController: Switching } : {}),
    });
    hls.on(Hls.Events.ERROR, (_, data) => {
      if (data.details === Hls.ErrorDetails.INTERNAL_ABORTED) return;  // a request that a seek made useless
      fail(`${data.type} ${data.details} ${data.frag?.url ?? data.url} ${data.error}`);
    });
    const isPicture = ({ type, sn }) => type === "main" && sn !== "initSegment";
    hls.on(Hls.Events.BUFFER_APPENDED, (_, { timeRanges: { video: ranges } }) => {
      if (ranges?.length) end = ranges.end(ranges.length - 1);
    });
    hls.on(Hls.Events.FRAG_BUFFERED, (_, { frag }) => { if (isPicture(frag)) report.played_levels.push(frag.level); });
    const parsed = new Promise((resolve) => hls.once(Hls.Events.MANIFEST_PARSED, resolve));
    hls.loadSource(url);
    hls.attachMedia(video);
    await parsed;
    report.levels = hls.levels.map((level) => ({ height: level.height, rate: level.bitrate, fps: level.frameRate }));
    report.sounds = hls.allAudioTracks.map((track) => ({ language: track.lang ?? null, name: track.name }));
    report.texts = hls.allSubtitleTracks.map((track) => ({ language: track.lang ?? null, name: track.name }));
    report.trickPlay = hls.iframeVariants?.length ?? 0;
    return {
      sound: () => hls.audioTrack,
      setSound: (index) => { hls.audioTrack = index; },
      setText: (index) => { hls.subtitleTrack = index; },
    };
  },

  async "dash.js"(url) {
    await script("dashjs/dist/modern/umd/dash.all.min.js");
    const player = dashjs.MediaPlayer().create();
    const names = dashjs.MediaPlayer.events;
    player.updateSettings({
      debug: { logLevel: 1 },
      streaming: {
        abr: { autoSwitchBitrate: { video: false, audio: false } },
        buffer: { bufferTimeDefault: BUFFER_S, bufferTimeAtTopQuality: BUFFER_S },
        text: { defaultEnabled: false },
      },
    });
    for (const name of [names.ERROR, names.PLAYBACK_ERROR])
      player.on(name, ({ error }) => fail(`${error?.code} ${error?.message}`));
    player.on(names.FRAGMENT_LOADING_COMPLETED, ({ request, error }) => {
      if (error) fail(`${request.url} ${error.message ?? error}`);
    });
    player.on(names.FRAGMENT_LOADING_STARTED, ({ request }) => {
      if (request.mediaType !== "video" || request.type !== "MediaSegment") return;
      const index = request.representation?.index ?? request.quality;
      report.played_levels.push(index);
      const count = player.getRepresentationsByType("video").length;
      if (query.has("switches")) player.setRepresentationForTypeByIndex("video", next(index, count));
    });
    const ready = new Promise((resolve) => player.on(names.STREAM_INITIALIZED, resolve));
    player.initialize(video, url, false);
    await ready;
    const tracks = (kind) => player.getTracksFor(kind);
    report.levels = player.getRepresentationsByType("video")
      .map((level) => ({ height: level.height, rate: level.bitrateInKbit * 1000, fps: level.frameRate }));
    const described = (track) => ({ language: track.lang ?? null, name: track.labels?.[0]?.text ?? null });
    report.sounds = tracks("audio").map(described);
    report.texts = tracks("text").map(described);
    return {
      sound: () => player.getCurrentTrackFor("audio")?.index,
      setSound: (index) => player.setCurrentTrack(tracks("audio")[index]),
      setText: (index) => player.setTextTrack(index),
    };
  },

  async shaka(url) {
    await script("shaka-player/dist/shaka-player.compiled.js");
    shaka.polyfill.installAll();
    const player = new shaka.Player();
    await player.attach(video);
    // Fast playback needs something left to load, so it has the default goal.
    const streaming = query.has("trick") ? {} : { bufferingGoal: BUFFER_S };
    player.configure({ abr: { enabled: false }, streaming });
    player.getNetworkingEngine().registerResponseFilter((_, { uri, headers }) => {
      if (uri.endsWith("_keyframes.mp4")) report.keyframe_ranges.push(headers["content-range"] ?? "whole");
    });
    player.addEventListener("error", ({ detail }) => fail(`${detail.code} ${detail.data}`));
    const levels = () => player.getVariantTracks().filter((track) => track.audioId === active()?.audioId)
      .sort((a, b) => b.bandwidth - a.bandwidth);
    const active = () => player.getVariantTracks().find((track) => track.active);
    player.addEventListener("segmentappended", ({ contentType, isInit }) => {
      if (contentType !== "video" || isInit) return;
      const all = levels();
      const index = all.findIndex((track) => track.active);
      report.played_levels.push(index);
      if (query.has("switches")) player.selectVariantTrack(all[next(index, all.length)], false);
    });
    await player.load(url).catch((error) => fail(`${error.code} ${error.data}`));
    report.levels = levels().map((track) => ({ height: track.height, rate: track.bandwidth, fps: track.frameRate }));
    const sounds = () => player.getAudioTracks();
    report.sounds = sounds().map((track) => ({ language: track.language, name: track.label }));
    report.texts = player.getTextTracks().map((track) => ({ language: track.language, name: track.label }));
    return {
      sound: () => sounds().findIndex((track) => track.active),
      setSound: (index) => player.selectAudioTrack(sounds()[index]),
      setText: (index) => player.selectTextTrack(player.getTextTracks()[index]),
      trick: () => player.trickPlay(4),
    };
  },
};

const ranges = () => [...Array(video.buffered.length).keys()]
  .map((place) => [video.buffered.start(place), video.buffered.end(place)]);

function collectCues() {
  const seen = new Map(report.cues.map((cue) => [JSON.stringify(cue), cue]));
  for (const track of video.textTracks)
    for (const cue of track.cues ?? []) {
      const found = [cue.startTime, cue.endTime, cue.text];
      seen.set(JSON.stringify(found), found);
    }
  report.cues = [...seen.values()];
}

async function buffer() {
  const goal = () => Math.min(BUFFER_S, video.duration - 0.1);
  for (let round = 0; round < 100 && !(ranges().at(-1)?.[1] >= goal()); round += 1) await sleep(100);
}

async function playToTheEnd() {
  await video.play();
  // dash.js pauses at the end by a timer. If it does so a moment early, Chromium does not say that playback ended.
  const isAtEnd = () => video.ended || (video.paused && video.duration - video.currentTime < 0.1);
  while (!isAtEnd()) await sleep(50);
  report.ended += 1;
}

async function advance(seconds) {
  const target = video.currentTime + seconds;
  while (video.currentTime < target && !video.ended) await event("timeupdate");
}

async function seek(time) {
  const done = event("seeked");
  video.currentTime = time;
  await done;
}

async function run() {
  video.addEventListener("error", () => fail(`video: ${video.error.message}`));
  let started = false;
  video.addEventListener("playing", () => { started = true; });
  video.addEventListener("waiting", () => { report.waits += started && report.ended === 0; });
  video.addEventListener("timeupdate", collectCues);
  const player = await adapters[query.get("player")](query.get("url"));
  if (query.has("text")) player.setText(0);
  video.playbackRate = Number(query.get("rate") ?? 1);
  if (query.has("trick")) {
    await video.play();
    player.trick();
  } else {
    await buffer();
  }
  await playToTheEnd();
  const quality = video.getVideoPlaybackQuality();
  Object.assign(report, {
    duration: video.duration, buffered: ranges(), pictures: quality.totalVideoFrames,
    dropped: quality.droppedVideoFrames, played_levels: [...report.played_levels], size: [video.videoWidth, video.videoHeight],
  });
  if (query.has("tour")) {
    await seek(video.duration * 0.6);
    await video.play();
    await advance(0.5);
    if (report.sounds.length > 1) player.setSound(next(player.sound(), report.sounds.length));
    await seek(video.duration * 0.2);
    await advance(0.5);
    await seek(video.duration - 1);
    await playToTheEnd();
    report.played_sound = player.sound();
  }
  collectCues();
}

window.addEventListener("unhandledrejection", ({ reason }) => fail(reason));
run().catch((error) => fail(error.stack ?? error)).finally(() => { window.report = report; });
