package show

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
)

// Plot is curves over numbers, like those of members.
type Plot struct {
	Title, X, Y string
	LogX, LogY  bool
	Curves      []PlotCurve
	Size        PlotSize
}

// PlotSize is how large a plot is, in units of 1/72 inch. The legend has a strip of its own, so
// that it covers no data.
type PlotSize struct{ Width, Height, Legend float64 }

// PlotCurve is one line of a plot. A curve without points keeps the colors of the others as they
// are.
type PlotCurve struct {
	Name   string
	Points []PlotPoint
}

// PlotPoint is a point, with a bar for its deviation if it has one.
type PlotPoint struct {
	X            int
	Y, Deviation float64
}

// maxTicks is how many numbers an axis has room for.
const maxTicks = 16

// Margins around the area of the curves: the numbers and the names of the axes, and the title.
const (
	marginLeft, marginBottom = 66, 42
	marginTop, marginRight   = 36, 14
	tickLength               = 5
)

// Draw writes the plot to a file, as SVG.
func (p Plot) Draw(path string) error {
	picture, err := p.svg()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, picture, 0o666)
}

func (p Plot) svg() ([]byte, error) {
	x, y, err := p.axes()
	if err != nil {
		return nil, err
	}
	d := newDrawing(p.Size.Width, p.Size.Height)
	middle := (x.from + x.to) / 2
	d.text(middle, 20, 12, "middle", p.Title)
	d.text(middle, p.Size.Height-8, 12, "middle", p.X)
	d.upwards(16, (y.from+y.to)/2, 12, p.Y)
	for _, t := range p.ticksX() {
		at := x.at(t.value)
		d.line(at, y.from, at, y.to, gray, 0.4)
		d.line(at, y.from, at, y.from+tickLength, black, 0.5)
		d.text(at, y.from+tickLength+11, 10, "middle", t.label)
	}
	for _, t := range y.ticks() {
		at := y.at(t.value)
		if t.label != "" {
			d.line(x.from, at, x.to, at, gray, 0.4)
		}
		d.line(x.from-tickLength, at, x.from, at, black, 0.5)
		d.text(x.from-tickLength-3, at+3.5, 10, "end", t.label)
	}
	d.line(x.from, y.from, x.to, y.from, black, 0.7)
	d.line(x.from, y.from, x.from, y.to, black, 0.7)
	p.drawCurves(d, x, y)
	return d.end(), nil
}

// drawCurves draws the curves, and their names in the legend.
func (p Plot) drawCurves(d *drawing, x, y axis) {
	left, row := p.Size.Width-p.Size.Legend, float64(marginTop)
	for i, c := range p.Curves {
		shown := p.shown(c)
		if len(shown) == 0 {
			continue
		}
		var line []float64
		for _, at := range shown {
			px, py := x.at(float64(at.X)), y.at(at.Y)
			line = append(line, px, py)
			if at.Deviation > 0 {
				low := at.Y - at.Deviation
				if p.LogY {
					low = max(low, at.Y/100)
				}
				d.bar(px, y.at(max(low, y.low)), y.at(min(at.Y+at.Deviation, y.high)), i)
			}
		}
		d.curve(line, i)
		d.curve([]float64{left, row, left + 24, row}, i)
		d.text(left+30, row+3.5, 11, "start", c.Name)
		row += 16
	}
}

// axes spans the axes over all points. A linear one begins at 0, and a logarithmic one covers whole
// decades upwards.
func (p Plot) axes() (x, y axis, err error) {
	var least, most float64 = math.Inf(1), 0
	for _, c := range p.Curves {
		for _, at := range p.shown(c) {
			least, most = min(least, at.Y), max(most, at.Y+at.Deviation)
		}
	}
	if math.IsInf(least, 1) {
		return x, y, errors.New("there is no point to draw")
	}
	y = axis{low: 0, high: most * 1.03, from: p.Size.Height - marginBottom, to: marginTop, log: p.LogY}
	if p.LogY {
		y.low, y.high = math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most)))
	}
	if y.high <= y.low {
		y.high = y.low + 1
	}
	numbers := p.Numbers()
	x = axis{low: float64(numbers[0]), high: float64(numbers[len(numbers)-1]), from: marginLeft, to: p.Size.Width - p.Size.Legend - marginRight, log: p.LogX}
	if x.high == x.low {
		x.low, x.high = x.low*0.9, x.high*1.1+1
	}
	return x, y, nil
}

// axis is a scale from one place of the picture to another.
type axis struct {
	low, high float64
	from, to  float64
	log       bool
}

// at is the place of a value.
func (a axis) at(v float64) float64 {
	part := (v - a.low) / (a.high - a.low)
	if a.log {
		part = math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return a.from + part*(a.to-a.from)
}

// tick is a place of an axis, with a number if it has a label.
type tick struct {
	value float64
	label string
}

// ticks are the ticks of an axis of values: decades on a logarithmic one, otherwise four to ten
// round numbers.
func (a axis) ticks() (ticks []tick) {
	if a.log {
		return decades(a.low, a.high)
	}
	step := math.Pow(10, math.Floor(math.Log10(a.high/4)))
	for _, times := range []float64{5, 2} {
		if a.high/(step*times) >= 4 {
			step *= times
			break
		}
	}
	for i := 0; float64(i)*step <= a.high; i++ {
		ticks = append(ticks, tick{float64(i) * step, strconv.FormatFloat(float64(i)*step, 'g', 10, 64)})
	}
	return ticks
}

func decades(low, high float64) (ticks []tick) {
	for v := low; v < high*1.01; v *= 10 {
		ticks = append(ticks, tick{v, strconv.FormatFloat(v, 'g', 10, 64)})
		for minor := 2; minor < 10 && v*float64(minor) < high; minor++ {
			ticks = append(ticks, tick{value: v * float64(minor)})
		}
	}
	return ticks
}

// ticksX are at the numbers that have points, as many as there is room for: where they are too
// many, every second one has a label, or every fourth.
func (p Plot) ticksX() (ticks []tick) {
	numbers := p.Numbers()
	every := 1
	for len(numbers)/every > maxTicks {
		every *= 2
	}
	for i, n := range numbers {
		t := tick{value: float64(n)}
		if i%every == 0 {
			t.label = strconv.Itoa(n)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// shown are the points that the axes can show: a logarithmic one has no place for what is not more
// than 0.
func (p Plot) shown(c PlotCurve) (shown []PlotPoint) {
	for _, at := range c.Points {
		if at.Y > 0 || !p.LogY {
			shown = append(shown, at)
		}
	}
	return shown
}

// Numbers returns the numbers that have points.
func (p Plot) Numbers() (all []int) {
	for _, c := range p.Curves {
		for _, at := range c.Points {
			all = append(all, at.X)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
