package show

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// drawing is a picture in SVG. Its origin is the upper left corner.
type drawing struct{ bytes.Buffer }

const (
	black = "#000000"
	gray  = "#c8c8c8"
)

// Curves differ by color, by mark and, from the fifth on, by dashes too.
var (
	colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"}
	dashes = []string{"", "6 2", "2 2"}
)

// markRadius is the size of a point.
const markRadius = 2.6

func newDrawing(width, height float64) *drawing {
	d := &drawing{}
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" width="%vpt" height="%vpt" viewBox="0 0 %v %v" font-family="sans-serif">`+"\n", width, height, width, height)
	fmt.Fprintf(d, `<rect width="%v" height="%v" fill="#ffffff"/>`+"\n", width, height)
	return d
}

func (d *drawing) end() []byte {
	d.WriteString("</svg>\n")
	return d.Bytes()
}

// escape lets a text stand in an element.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// text writes from a point, or to it, or around it, as the anchor says.
func (d *drawing) text(x, y, size float64, anchor, text string) {
	if text != "" {
		fmt.Fprintf(d, `<text x="%.1f" y="%.1f" font-size="%v" text-anchor="%s">%s</text>`+"\n", x, y, size, anchor, escape.Replace(text))
	}
}

// upwards writes from the bottom to the top, around a point.
func (d *drawing) upwards(x, y, size float64, text string) {
	fmt.Fprintf(d, `<text transform="translate(%.1f %.1f) rotate(-90)" font-size="%v" text-anchor="middle">%s</text>`+"\n", x, y, size, escape.Replace(text))
}

func (d *drawing) line(x1, y1, x2, y2 float64, color string, width float64) {
	fmt.Fprintf(d, `<path d="M%.1f %.1fL%.1f %.1f" stroke="%s" stroke-width="%v"/>`+"\n", x1, y1, x2, y2, color, width)
}

// curve draws a line through points, which are x and y in turn, in the style of curve i.
func (d *drawing) curve(points []float64, i int) {
	var path, marks strings.Builder
	for at := 0; at < len(points); at += 2 {
		x, y := points[at], points[at+1]
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(at, 1)], x, y)
		marks.WriteString(mark(x, y, i))
	}
	color := colors[i%len(colors)]
	fmt.Fprintf(d, `<path d="%s" fill="none" stroke="%s" stroke-width="1.2" stroke-dasharray="%s"/>`+"\n", path.String(), color, dashes[i/4%len(dashes)])
	fmt.Fprintf(d, `<path d="%s" fill="%s"/>`+"\n", marks.String(), color)
}

// mark is the path of a point: a polygon of three, four, five … corners.
func mark(x, y float64, i int) string {
	var b strings.Builder
	corners := 3 + i%6
	for c := range corners {
		sin, cos := math.Sincos(2 * math.Pi * float64(c) / float64(corners))
		fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(c, 1)], x+markRadius*sin, y-markRadius*cos)
	}
	return b.String() + "Z"
}

// bar draws the bar of a deviation, in the color of curve i.
func (d *drawing) bar(x, low, high float64, i int) {
	color := colors[i%len(colors)]
	d.line(x, low, x, high, color, 0.7)
	d.line(x-3, low, x+3, low, color, 0.7)
	d.line(x-3, high, x+3, high, color, 0.7)
}
