pub(crate) fn rows(_: &mut crate::row::Rows) {}
