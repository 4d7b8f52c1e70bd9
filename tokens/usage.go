package tokens

import (
	"math"

	"github.com/weir-go/weir/internal/ground/arith"
)

// Usage is how many tokens a request has used. All numbers are 0 or more.
type Usage struct {
	Input       int64  // all tokens of the prompt
	Cached      int64  // those of Input that were read from a cache
	CacheWrites int64  // those of Input that were written to a cache
	HourWrites  int64  // those of CacheWrites that the cache keeps for an hour
	Audio       int64  // those of Input that are sound, neither cached nor written to a cache
	Images      int64  // those of Input that are pictures or videos, as Audio
	Output      int64  // all tokens of the answer
	Reasoning   int64  // those of Output that were thoughts, if the answer tells
	AudioOutput int64  // those of Output that are sound
	ImageOutput int64  // those of Output that are pictures
	Calls       int64  // of tools that the server runs, such as searches of the web
	Tier        string // of service that the answer names, such as "flex", or ""
}

// plus returns u and o together. The tier is that of u.
func (u Usage) plus(o Usage) Usage {
	return u.with(o, arith.Sum).bounded() // if the sum of the whole is less than that of the parts
}

// most returns the larger numbers of u and o.
func (u Usage) most(o Usage) Usage {
	return u.with(o, func(a, b int64) int64 { return max(a, b) })
}

func (u Usage) with(o Usage, join func(a, b int64) int64) Usage {
	return Usage{
		Input: join(u.Input, o.Input), Cached: join(u.Cached, o.Cached),
		CacheWrites: join(u.CacheWrites, o.CacheWrites), HourWrites: join(u.HourWrites, o.HourWrites),
		Audio: join(u.Audio, o.Audio), Images: join(u.Images, o.Images),
		Output: join(u.Output, o.Output), Reasoning: join(u.Reasoning, o.Reasoning),
		AudioOutput: join(u.AudioOutput, o.AudioOutput), ImageOutput: join(u.ImageOutput, o.ImageOutput),
		Calls: join(u.Calls, o.Calls), Tier: u.Tier,
	}
}

func (u Usage) tokens() int64 { return arith.Sum(u.Input, u.Output) }

// told are the largest numbers that one usage or entry tells, each plus one; 0: none.
type told [int(classes) * int(shares)]int64

func number(c class, s share) int { return int(c)*int(shares) + int(s) }

func (t *told) set(i int, value int64) { t[i] = max(t[i], min(value, math.MaxInt64-1)+1) }

func (t *told) knows(c class) bool { return t[number(c, within)] > 0 || t[number(c, beside)] > 0 }

func (t *told) of(c class, s share) int64 { return max(0, t[number(c, s)]-1) }

func (t *told) most(c class) int64 { return max(t.of(c, within), t.of(c, beside)) }

// readInput returns the input that t tells, and its parts. Parts are not more than the whole: those
// that are stand beside it, as at xAI.
func (t *told) readInput() (u Usage) {
	isPrompt := t[number(input, within)] > 0
	if isPrompt { // LiteLLM tells parts of it as Anthropic does, which are beside
		u.Input = max(t.of(input, within), t.of(input, beside))
		u.Cached, u.CacheWrites = t.most(cached), t.most(written)
	} else {
		u.Input = t.of(input, beside)
		u.Cached, u.CacheWrites = t.of(cached, within), t.of(written, within)
	}
	if parts := arith.Sum(u.Cached, u.CacheWrites); parts > u.Input {
		u.Input = arith.Sum(u.Input, parts)
	}
	if !isPrompt {
		read, written := t.of(cached, beside), t.of(written, beside)
		u.Cached, u.CacheWrites = arith.Sum(u.Cached, read), arith.Sum(u.CacheWrites, written)
		u.Input = arith.Sum(u.Input, arith.Sum(read, written))
	}
	u.Input = arith.Sum(u.Input, t.of(cited, beside))
	u.HourWrites, u.Audio = t.most(hourly), t.most(audio)
	u.Images = arith.Sum(t.most(images), t.most(video))
	return u.bounded()
}

// readOutput returns the output that t tells, and its parts, as readInput does. Perplexity and
// DeepInfra tell reasoning beside the output under the names by which others tell it as a part.
func (t *told) readOutput() (u Usage) {
	u.Output, u.Reasoning = t.most(output), t.most(reasoning)
	if u.Reasoning > u.Output {
		u.Output = arith.Sum(u.Output, u.Reasoning)
	}
	u.AudioOutput, u.ImageOutput = t.most(audioOutput), t.most(imageOutput)
	return u
}

// bounded returns u without parts that are more than the whole.
func (u Usage) bounded() Usage {
	u.Cached = min(u.Cached, u.Input)
	u.CacheWrites = min(u.CacheWrites, u.Input-u.Cached)
	u.HourWrites = min(u.HourWrites, u.CacheWrites)
	u.Audio = min(u.Audio, u.Input-u.Cached-u.CacheWrites)
	u.Images = min(u.Images, u.Input-u.Cached-u.CacheWrites-u.Audio)
	u.Reasoning = min(u.Reasoning, u.Output)
	u.AudioOutput = min(u.AudioOutput, u.Output-u.Reasoning)
	u.ImageOutput = min(u.ImageOutput, u.Output-u.Reasoning-u.AudioOutput)
	return u
}

// report is one usage, whose entries are parts of the bill. Its top level is the sum of the runs of
// the model, and in older revisions less: only the first run's input.
type report struct {
	told
	entries entries
}

// entries are the sums of the entries of a usage.
type entries struct {
	runs    Usage // of the model
	others  Usage // of the model, which the top level leaves out: summaries
	advice  Usage // of another model
	adviser string
	served  string // the model that has answered in place of the one that has declined
	longest int64  // input of an entry
}

// add adds an entry. Those of unknown kinds are not known to be billed.
func (e *entries) add(kind, model string, entry *told) {
	u := entry.readInput().plus(entry.readOutput())
	switch kind {
	case "message":
		e.runs = e.runs.plus(u)
	case "fallback_message":
		e.served = model
	case "compaction":
		e.others = e.others.plus(u)
	case "advisor_message":
		e.advice, e.adviser = e.advice.plus(u), model
		return
	default:
		return
	}
	e.longest = max(e.longest, u.Input)
}

// bill is what an answer tells of its usage, in all its reports.
type bill struct {
	input       Usage // if hasInput
	output      Usage // if hasOutput; its parts may be more than the whole, which total then tells
	hasInput    bool
	hasOutput   bool
	total       int64
	calls       int64
	longest     int64 // input of a run of the model
	others      Usage
	advice      Usage
	adviser     string
	served      string
	model       string // that the answer names
	tier, speed string
}

// add adds a report. Reports of a stream are sums of what came before, so the largest is the newest.
// One may tell as a whole what the next tells in parts.
func (b *bill) add(r *report) {
	in, out := r.readInput(), r.readOutput()
	e := &r.entries
	if in.Input == 0 && out == (Usage{}) && e.longest == 0 {
		return // zeros: the server has not counted
	}
	if e.served == "" && e.runs.tokens() > arith.Sum(in.Input, out.Output) {
		in, out = e.runs.split()
	}
	hasInput := r.knows(input) && in.Input > 0 || e.longest > 0
	switch {
	case !hasInput:
	case !b.hasInput || in.Input > b.input.Input:
		b.input, b.hasInput = in, true
	case in.Input == b.input.Input:
		b.input = b.input.most(in).bounded()
	}
	if r.knows(output) || e.longest > 0 {
		b.output, b.hasOutput = b.output.most(out), true
	}
	b.calls = max(b.calls, r.most(calls))
	b.total = max(b.total, r.of(total, within))
	b.longest = max(b.longest, e.longest)
	if e.others.tokens() >= b.others.tokens() {
		b.others = e.others
	}
	if e.advice.tokens() >= b.advice.tokens() && e.adviser != "" {
		b.advice, b.adviser = e.advice, e.adviser
	}
	if e.served != "" {
		b.served = e.served
	}
}

// split returns the input of u and its output.
func (u Usage) split() (in, out Usage) {
	in = u
	in.Output, in.Reasoning, in.AudioOutput, in.ImageOutput = 0, 0, 0, 0
	out = Usage{Output: u.Output, Reasoning: u.Reasoning, AudioOutput: u.AudioOutput,
		ImageOutput: u.ImageOutput}
	return in, out
}

// tierOf returns the tier of the answer. The speed of Anthropic is one, unless it is the usual one.
func (b *bill) tierOf() string {
	if b.speed != "" && b.speed != "standard" {
		return b.speed
	}
	return b.tier
}
