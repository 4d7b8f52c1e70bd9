package shed

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Picture shows goodput by offered load, as multiples of the capacity.
type Picture struct {
	Title string
	About string // below the title, at most two lines
	Lines []Line
	Top   float64 // of the vertical axis
}

// Line is one limiter in a Picture.
type Line struct {
	Name   string
	Points []float64 // goodput, one for each of Loads
	Strong bool
}

const (
	width, height           = 640, 350
	left, right, above, low = 48, 190, 66, 44
	letters                 = 88 // per line of the width of the picture
)

// The colours differ in brightness too, for people who do not see red or green, on white and on
// black.
const style = `text{font:12px system-ui,sans-serif;fill:#24292f}` +
	`.t{font-size:14px;font-weight:600}.g{stroke:#d0d7de;stroke-width:1}` +
	`.l{fill:none;stroke-width:1.5}.s{stroke-width:3.5}` +
	`.c0{stroke:#8c959f;stroke-dasharray:2 3}.c1{stroke:#24292f;stroke-dasharray:7 4}` +
	`.c2{stroke:#bc4c00}.c3{stroke:#8250df}.c4{stroke:#1a7f37}.c5{stroke:#0969da}` +
	`@media (prefers-color-scheme:dark){text{fill:#e6edf3}.g{stroke:#3d444d}` +
	`.c0{stroke:#7d8590}.c1{stroke:#e6edf3}.c2{stroke:#f0883e}` +
	`.c3{stroke:#bc8cff}.c4{stroke:#3fb950}.c5{stroke:#58a6ff}}`

// WriteSVG writes p as SVG, readable on light and dark pages.
func (p *Picture) WriteSVG(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+
		`<title>%s</title><style>%s</style>`+"\n", width, height, p.Title, style)
	fmt.Fprintf(&b, `<text class="t" x="%d" y="20">%s</text>`+"\n", left, p.Title)
	for i, line := range wrap(p.About) {
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", left, 37+15*i, line)
	}
	for i := 0; float64(i)/5 <= p.Top; i++ {
		y := float64(i) / 5
		fmt.Fprintf(&b, `<path class="g" d="M%d %.1fH%d"/>`+
			`<text x="%d" y="%.1f" text-anchor="end">%.1f</text>`+"\n",
			left, p.y(y), width-right, left-6, p.y(y)+4, y)
	}
	for _, load := range Loads {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", x(load),
			height-low+18, load)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">`+
		`offered, times the capacity; goodput likewise</text>`+"\n", (left+width-right)/2, height-8)
	// Draw wide lines first: they would hide the others.
	for _, strong := range []bool{true, false} {
		for i, line := range p.Lines {
			if line.Strong == strong {
				p.draw(&b, i, line)
			}
		}
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// draw draws a line and its entry in the legend.
func (p *Picture) draw(b *strings.Builder, i int, line Line) {
	class := fmt.Sprintf("l c%d", i)
	if line.Strong {
		class += " s"
	}
	var points []string
	for k, y := range line.Points {
		points = append(points, fmt.Sprintf("%.1f %.1f", x(Loads[k]), p.y(min(y, p.Top))))
	}
	fmt.Fprintf(b, `<path class="%s" d="M%s"/>`, class, strings.Join(points, "L"))
	at := above + 14 + 20*i
	fmt.Fprintf(b, `<path class="%s" d="M%d %dh22"/><text x="%d" y="%d">%s</text>`+"\n", class,
		width-right+12, at, width-right+40, at+4, line.Name)
}

// wrap breaks text into lines of the picture's width.
func wrap(text string) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > letters {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// x returns the position of a load on a logarithmic axis.
func x(load float64) float64 {
	part := math.Log(load/Loads[0]) / math.Log(Loads[len(Loads)-1]/Loads[0])
	return left + part*(width-right-left)
}

func (p *Picture) y(goodput float64) float64 {
	return height - low - goodput/p.Top*(height-low-above)
}
