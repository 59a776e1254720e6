package show

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Plot is curves over numbers, like those of members.
type Plot struct {
	Title, X, Y string
	LogX, LogY  bool
	Curves      []PlotCurve
	Size        PlotSize
}

// PlotSize is how large a plot is. The legend has a strip of its own, so that it covers no data.
type PlotSize struct{ Width, Height, Legend, Margin, Dot vg.Length }

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

// Draw writes the plot to a file, in the format of its ending.
func (p Plot) Draw(path string) error {
	curves, legend, err := p.curves()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s := p.Size
	canvas, err := draw.NewFormattedCanvas(s.Width, s.Height, filepath.Ext(path)[1:])
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	whole := draw.Crop(draw.New(canvas), s.Margin, -s.Margin, s.Margin, -s.Margin)
	curves.Draw(draw.Crop(whole, 0, -s.Legend, 0, 0))
	legend.Draw(draw.Crop(whole, s.Width-s.Margin-s.Legend, 0, 0, -legend.TextStyle.Font.Size*2))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

// curves makes the curves, and the legend apart.
func (p Plot) curves() (*plot.Plot, plot.Legend, error) {
	all, legend := plot.New(), plot.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, vg.Millimeter
	all.Title.Text, all.Title.Padding = p.Title, 3*vg.Millimeter
	all.X.Label.Text, all.Y.Label.Text = p.X, p.Y
	all.X.Tick.Marker = p.ticks()
	all.Add(plotter.NewGrid())
	drawn := false
	for i, c := range p.Curves {
		shown := p.shown(c)
		if len(shown) == 0 {
			continue
		}
		drawn = true
		if err := p.add(all, &legend, i, c.Name, shown); err != nil {
			return nil, legend, err
		}
	}
	if !drawn {
		return nil, legend, errors.New("there is no point to draw")
	}
	p.scale(all)
	return all, legend, nil
}

func (p Plot) add(all *plot.Plot, legend *plot.Legend, i int, name string, shown points) error {
	line, dots, err := plotter.NewLinePoints(shown)
	if err != nil {
		return err
	}
	line.Color, line.Width, line.Dashes = plotutil.Color(i), vg.Points(1.2), plotutil.Dashes(i/3)
	dots.Color, dots.Shape, dots.Radius = plotutil.Color(i), plotutil.Shape(i), p.Size.Dot
	all.Add(line, dots)
	if shown.deviate() {
		bars, err := plotter.NewYErrorBars(deviations{shown, p.LogY})
		if err != nil {
			return err
		}
		bars.Color = plotutil.Color(i)
		all.Add(bars)
	}
	legend.Add(name, line, dots)
	return nil
}

// scale begins a linear axis at 0, and has a logarithmic one cover whole decades.
func (p Plot) scale(all *plot.Plot) {
	if p.LogX {
		all.X.Scale = plot.LogScale{}
	}
	if !p.LogY {
		all.Y.Min, all.Y.Max = 0, all.Y.Max*1.03
		return
	}
	all.Y.Scale, all.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
	all.Y.Min, all.Y.Max = math.Pow(10, math.Floor(math.Log10(all.Y.Min))), math.Pow(10, math.Ceil(math.Log10(all.Y.Max)))
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

// ticks are at the numbers that have points, as many as there is room for: where they are too many,
// every second one has a label, or every fourth.
func (p Plot) ticks() (ticks plot.ConstantTicks) {
	numbers := p.Numbers()
	every := 1
	for len(numbers)/every > maxTicks {
		every *= 2
	}
	for i, n := range numbers {
		tick := plot.Tick{Value: float64(n)}
		if i%every == 0 {
			tick.Label = strconv.Itoa(n)
		}
		ticks = append(ticks, tick)
	}
	return ticks
}

// points implements plotter.XYer.
type points []PlotPoint

func (p points) Len() int                    { return len(p) }
func (p points) XY(i int) (float64, float64) { return float64(p[i].X), p[i].Y }

// deviate reports whether any point has a deviation.
func (p points) deviate() bool {
	return slices.ContainsFunc(p, func(p PlotPoint) bool { return p.Deviation > 0 })
}

// shown are the points that the axes can show: a logarithmic one has no place for what is not more
// than 0.
func (p Plot) shown(c PlotCurve) (shown points) {
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

// deviations are points with their deviations.
type deviations struct {
	points
	log bool
}

// YError implements plotter.YErrorer.
func (d deviations) YError(i int) (low, high float64) {
	p := d.points[i]
	if d.log {
		return min(p.Deviation, p.Y*0.99), p.Deviation
	}
	return p.Deviation, p.Deviation
}
