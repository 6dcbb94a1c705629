//! Charts, drawn here: bars and lines as SVG, with the numbers in words for those who do not see them.

use std::fmt::Write;

/// One row of bars or one line.
pub(crate) struct Series {
    /// What it is, and the class it is coloured by.
    pub(crate) name: &'static str,
    pub(crate) values: Vec<u64>,
}

const WIDTH: u64 = 640;
const HEIGHT: u64 = 120;

/// Bars on top of each other, one stack for each step.
pub(crate) fn stacked(title: &str, series: &[Series]) -> String {
    let steps = series.iter().map(|one| one.values.len()).max().unwrap_or(0);
    let total = |step: usize| series.iter().map(|one| value(one, step)).sum::<u64>();
    let most = (0..steps).map(total).max().unwrap_or(0).max(1);
    let mut marks = String::new();
    for step in 0..steps {
        let mut below = 0;
        for one in series {
            let value = value(one, step);
            let (x, width) = slot(step, steps);
            let (top, bottom) = (height(below + value, most), height(below, most));
            if value > 0 {
                let _ = write!(
                    marks,
                    r#"<rect class="mark {}" x="{x}" y="{}" width="{width}" height="{}"/>"#,
                    one.name,
                    HEIGHT - top,
                    (top - bottom).max(1)
                );
            }
            below += value;
        }
    }
    framed(title, series, most, &marks)
}

/// Lines, one for each series.
pub(crate) fn lines(title: &str, series: &[Series]) -> String {
    let most = series.iter().flat_map(|one| &one.values).copied().max().unwrap_or(0).max(1);
    let mut marks = String::new();
    for one in series {
        let points: Vec<_> = (0..one.values.len())
            .map(|step| {
                let (x, width) = slot(step, one.values.len());
                format!("{},{}", x + width / 2, HEIGHT - height(value(one, step), most))
            })
            .collect();
        let _ = write!(marks, r#"<polyline class="mark {}" points="{}"/>"#, one.name, points.join(" "));
    }
    framed(title, series, most, &marks)
}

fn value(series: &Series, step: usize) -> u64 {
    series.values.get(step).copied().unwrap_or_default()
}

fn slot(step: usize, steps: usize) -> (u64, u64) {
    let (step, steps) = (step as u64, steps.max(1) as u64);
    let (from, to) = (step * WIDTH / steps, (step + 1) * WIDTH / steps);
    (from, (to - from).saturating_sub(1).max(1))
}

fn height(value: u64, most: u64) -> u64 {
    // A value is at most `most`, and a chart of billions of calls still has to come out right.
    u64::try_from(u128::from(value) * u128::from(HEIGHT) / u128::from(most)).unwrap_or(HEIGHT)
}

fn framed(title: &str, series: &[Series], most: u64, marks: &str) -> String {
    let sums: Vec<_> = series
        .iter()
        .map(|one| {
            let (sum, top) = (one.values.iter().sum::<u64>(), one.values.iter().max().copied().unwrap_or(0));
            format!("{}: {sum} in all, {top} at most", one.name)
        })
        .collect();
    let label = format!("{title}. {}", sums.join("; "));
    format!(
        r#"<svg class="chart" role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {}" preserveAspectRatio="none"><line class="axis" x1="0" y1="{HEIGHT}" x2="{WIDTH}" y2="{HEIGHT}"/><g>{marks}</g></svg><p class="scale">highest: {most}</p>"#,
        HEIGHT + 2
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_inside_and_stands_on_the_one_below() {
        let drawn = stacked(
            "Calls",
            &[
                Series { name: "done", values: vec![3, 0, u64::MAX / 4] },
                Series { name: "failed", values: vec![1, 0, u64::MAX / 4] },
            ],
        );
        let bars: Vec<&str> = drawn.split("<rect").skip(1).collect();
        assert_eq!(bars.len(), 4, "{drawn}");
        assert!(bars[2].contains(r#"y="60" width="213" height="60""#), "{drawn}");
        assert!(bars[3].contains(r#"y="0" width="213" height="60""#), "{drawn}");
        assert!(drawn.contains("done: ") && !lines("Nothing", &[]).contains("rect"), "{drawn}");
    }
}
