package messages

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

// Sizes of a plot. The legend has a strip of its own, so that it covers no data.
const (
	plotWidth   = 22 * vg.Centimeter
	plotHeight  = 12 * vg.Centimeter
	legendWidth = 5.5 * vg.Centimeter
	margin      = 4 * vg.Millimeter
)

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
	all := draw.Crop(draw.New(canvas), margin, -margin, margin, -margin)
	p.Draw(draw.Crop(all, 0, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(all, plotWidth-2*margin-legendWidth+margin, 0, 0, -legend.TextStyle.Font.Size*2))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

// plot makes curves with error bars, and the legend apart.
func (f Figure) plot() (*plot.Plot, plot.Legend, error) {
	p, legend := plot.New(), plot.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, vg.Millimeter
	p.Title.Text, p.Title.Padding = f.Title+", 10 KiB", 3*vg.Millimeter
	p.X.Label.Text, p.Y.Label.Text = "members", f.YLabel
	p.X.Tick.Marker = f.ticks()
	grid := plotter.NewGrid()
	p.Add(grid)
	any := false
	for i, c := range f.Curves {
		if f.Log { // which has no place for what is not more than 0
			c.Points = slices.DeleteFunc(slices.Clone(c.Points), func(p Point) bool { return p.Mean <= 0 })
		}
		if len(c.Points) == 0 {
			continue
		}
		any = true
		if err := f.addCurve(p, &legend, i, c); err != nil {
			return nil, legend, err
		}
	}
	switch {
	case !any:
		return nil, legend, errors.New("nothing was measured")
	case f.Log:
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	default:
		p.Y.Min = 0
	}
	return p, legend, nil
}

func (f Figure) addCurve(p *plot.Plot, legend *plot.Legend, i int, c Curve) error {
	line, dots, err := plotter.NewLinePoints(points(c.Points))
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(f.errorBars(c.Points))
	if err != nil {
		return err
	}
	line.Color, line.Width, line.Dashes = plotutil.Color(i), vg.Points(1.2), plotutil.Dashes(i/3)
	dots.Color, dots.Shape, dots.Radius = plotutil.Color(i), plotutil.Shape(i), vg.Points(2.6)
	bars.Color = plotutil.Color(i)
	p.Add(line, dots, bars)
	legend.Add(c.Name, line, dots)
	return nil
}

// ticks are at the numbers of members that were measured.
func (f Figure) ticks() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	seen := map[int]bool{}
	for _, c := range f.Curves {
		for _, p := range c.Points {
			if !seen[p.Nodes] {
				seen[p.Nodes] = true
				ticks = append(ticks, plot.Tick{Value: float64(p.Nodes), Label: strconv.Itoa(p.Nodes)})
			}
		}
	}
	return ticks
}

// points implements plotter.XYer.
type points []Point

func (p points) Len() int                    { return len(p) }
func (p points) XY(i int) (float64, float64) { return float64(p[i].Nodes), p[i].Mean }

// deviations is a curve with its standard deviation.
type deviations struct {
	points
	log bool
}

func (f Figure) errorBars(p []Point) deviations { return deviations{p, f.Log} }

// YError implements plotter.YErrorer.
func (d deviations) YError(i int) (low, high float64) {
	p := d.points[i]
	if d.log {
		return min(p.Deviation, p.Mean*0.99), p.Deviation
	}
	return p.Deviation, p.Deviation
}
