"use strict";

// Show the thumbnails of a sprite over a seek bar, while the pointer is over it or a key moves it.
class Thumbnails {
  static HIDE_AFTER_MS = 1500; // after a key or a touch, which have no end that can be seen

  constructor(bar, box) {
    Object.assign(this, { bar, box, list: [] });
    this.picture = box.querySelector("#picture");
    this.moment = box.querySelector("#moment");
    bar.addEventListener("pointermove", (event) => this.show(this.timeAt(event.clientX)));
    bar.addEventListener("pointerleave", () => this.hide());
    bar.addEventListener("input", () => this.show(Number(bar.value), Thumbnails.HIDE_AFTER_MS));
    bar.addEventListener("blur", () => this.hide());
  }

  // Read the WebVTT file of the sprite. Each cue has a span of time, and names a sheet and a place in it.
  async load(address) {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
    const cue = /([\d:.]+) --> ([\d:.]+)\s+(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)/g;
    this.list = [...(await answer.text()).matchAll(cue)].map(([, , end, sheet, ...place]) => ({
      end: secondsOf(end), sheet: new URL(sheet, answer.url).href, place: place.map(Number),
    }));
    for (const sheet of new Set(this.list.map((one) => one.sheet))) new Image().src = sheet;
  }

  // The thumb of a range input stays inside the bar, so its centre begins at half of its width.
  timeAt(x) {
    const { left, width } = this.bar.getBoundingClientRect();
    const share = (x - left - SLIDER_PX / 2) / (width - SLIDER_PX);
    return Math.min(Math.max(share, 0), 1) * Number(this.bar.max);
  }

  show(time, hideAfterMs = null) {
    const one = this.list.find(({ end }) => time < end) ?? this.list.at(-1);
    if (!one) return;
    const [x, y, width, height] = one.place;
    Object.assign(this.picture.style, {
      width: `${width}px`, height: `${height}px`,
      backgroundImage: `url("${one.sheet}")`, backgroundPosition: `-${x}px -${y}px`,
    });
    this.moment.textContent = clock(time);
    this.box.hidden = false;
    const room = this.bar.clientWidth - this.box.offsetWidth;
    const centre = SLIDER_PX / 2 + (time / Number(this.bar.max)) * (this.bar.clientWidth - SLIDER_PX);
    this.box.style.left = `${Math.round(Math.min(Math.max(centre - this.box.offsetWidth / 2, 0), room))}px`;
    clearTimeout(this.timer);
    if (hideAfterMs !== null) this.timer = setTimeout(() => this.hide(), hideAfterMs);
  }

  hide() {
    clearTimeout(this.timer);
    this.box.hidden = true;
  }
}

const SLIDER_PX = 16; // the width of the thumb in page.css

const secondsOf = (text) => text.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);

function clock(seconds) {
  const whole = Math.floor((seconds || 0) + 0.05); // a film of 20 s may last 19.999999 s
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
