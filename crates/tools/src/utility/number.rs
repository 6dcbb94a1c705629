//! How a result becomes a JSON number.

use serde_json::Number;

/// The number as JSON spells it: a whole one without `.0`. None for what JSON cannot hold.
pub(super) fn number(value: f64) -> Option<Number> {
    // Below 2^53 every whole number is exactly an integer.
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < WHOLE {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn whole_numbers_have_no_fraction() {
        let spelled = |value| number(value).map(|n| n.to_string());
        assert_eq!(spelled(2.0).as_deref(), Some("2"));
        assert_eq!(spelled(-0.0).as_deref(), Some("0"));
        assert_eq!(spelled(-2.5).as_deref(), Some("-2.5"));
        assert_eq!(spelled(9_007_199_254_740_991.0).as_deref(), Some("9007199254740991"));
        assert_eq!(spelled(1e300).as_deref(), Some("1e+300"));
        assert_eq!((spelled(f64::INFINITY), spelled(f64::NAN)), (None, None));
    }
}
