package rdmc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes of a plot. The legend has a strip of its own, so that it covers no data.
const (
	plotWidth   = 21.5 * vg.Centimeter
	plotHeight  = 10 * vg.Centimeter
	legendWidth = 6.5 * vg.Centimeter // the longest name, and its line
	margin      = 3 * vg.Millimeter
)

// maxTicks is how many numbers of members an axis has room for.
const maxTicks = 16

// draw writes the figure to a file, in the format of its ending.
func (f Figure) draw(path string) error {
	p, legend, err := f.plot()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	canvas, err := draw.NewFormattedCanvas(plotWidth, plotHeight, filepath.Ext(path)[1:])
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	whole := draw.Crop(draw.New(canvas), margin, -margin, margin, -margin)
	p.Draw(draw.Crop(whole, 0, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(whole, plotWidth-margin-legendWidth, 0, 0, -legend.TextStyle.Font.Size*2))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

// plot makes the curves, and the legend apart.
func (f Figure) plot() (*plot.Plot, plot.Legend, error) {
	p, legend := plot.New(), plot.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, vg.Millimeter
	p.Title.Text, p.Title.Padding = f.Title, 3*vg.Millimeter
	p.X.Label.Text, p.Y.Label.Text = "members", f.YLabel
	if f.logY { // beside a logarithmic axis the library makes room for its label in the wrong place, and leaves a hole
		p.Title.Text, p.Y.Label.Text = f.Title+", "+f.YLabel, ""
	}
	p.X.Tick.Marker = f.ticks()
	p.Add(plotter.NewGrid())
	drawn := 0
	for i, c := range f.Curves {
		shown := f.points(c)
		if len(shown) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(shown)
		if err != nil {
			return nil, legend, err
		}
		line.Color, line.Width, line.Dashes = plotutil.Color(i), vg.Points(1.2), plotutil.Dashes(i/3)
		dots.Color, dots.Shape, dots.Radius = plotutil.Color(i), plotutil.Shape(i), vg.Points(2.2)
		p.Add(line, dots)
		legend.Add(c.Name, line, dots)
		drawn++
	}
	if drawn == 0 {
		return nil, legend, errors.New("there is no point to draw")
	}
	f.scale(p)
	return p, legend, nil
}

// scale begins a linear axis at 0, and has a logarithmic one cover whole decades.
func (f Figure) scale(p *plot.Plot) {
	if f.logX {
		p.X.Scale = plot.LogScale{}
	}
	if !f.logY {
		p.Y.Min, p.Y.Max = 0, p.Y.Max*1.03
		return
	}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
}

// decades are the ticks of a logarithmic axis.
func decades(low, high float64) (ticks []plot.Tick) {
	for v := low; v < high*1.01; v *= 10 {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
		for minor := 2 * v; minor < 10*v && minor < high; minor += v {
			ticks = append(ticks, plot.Tick{Value: minor})
		}
	}
	return ticks
}

// points are those that the axes can show: a logarithmic one has no place for 0.
func (f Figure) points(c Curve) (shown plotter.XYs) {
	for _, p := range c.Points {
		if y := f.value(p); y > 0 || !f.logY {
			shown = append(shown, plotter.XY{X: float64(p.Nodes), Y: y})
		}
	}
	return shown
}

// ticks are at the numbers of members, as many as there is room for: where they are too many, every second one has a label, or every fourth.
func (f Figure) ticks() (ticks plot.ConstantTicks) {
	nodes := f.members()
	every := 1
	for len(nodes)/every > maxTicks {
		every *= 2
	}
	for i, n := range nodes {
		tick := plot.Tick{Value: float64(n)}
		if i%every == 0 {
			tick.Label = strconv.Itoa(n)
		}
		ticks = append(ticks, tick)
	}
	return ticks
}
