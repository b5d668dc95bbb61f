//! Tables in CSV files.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use bibun_array::{Array, DType, Generator};
use csv::{ErrorKind, Position, Reader, ReaderBuilder, StringRecord};
use indexmap::IndexSet;

use super::{Batch, DataError, Dataset};

/// A CSV file and the options for reading it (RFC 4180: quotes around cells, doubled within them).
///
/// Requires the feature `csv`.
///
/// ```
/// use bibun::datasets::{Classes, Csv, Dataset};
/// # let folder = std::env::temp_dir().join(format!("bibun-csv-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let file = folder.join("flowers.csv");
/// std::fs::write(&file, "id,length,width,name\n1,5.1,3.5,setosa\n2,7.0,3.2,versicolor\n")?;
/// let flowers = Csv::new(&file)
///     .columns(["length", "width"])
///     .labeled("name", Classes::Sorted)?;
/// assert_eq!(flowers.values.to_vec::<f32>(), [5.1, 3.5, 7.0, 3.2]);
/// assert_eq!(flowers.labels.to_vec::<i64>(), [0, 1]);
/// assert_eq!(flowers.classes, ["setosa", "versicolor"]);
/// assert_eq!(flowers.len(), 2);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Csv {
    file: PathBuf,
    header: bool,
    delimiter: u8,
    columns: Option<Vec<Column>>,
    double: bool,
}

/// A column, by its name or its number from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column {
    /// The name in the header.
    Name(String),
    /// The number from 0.
    Number(usize),
}

/// The conversion of the cells of a label column to class numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Classes {
    /// The cells are whole numbers already.
    Numbers,
    /// The cells are words, numbered in alphabetical order.
    Sorted,
    /// The cells are words, numbered in order of first appearance.
    AsSeen,
}

/// Numbers from a CSV file.
#[derive(Clone, Debug)]
pub struct Table {
    /// The names of the columns, or their numbers if the file has no names.
    pub names: Vec<String>,
    /// The numbers, `[rows, columns]`.
    pub values: Array,
}

/// Numbers from a CSV file, and the class of each row.
#[derive(Clone, Debug)]
pub struct LabeledTable {
    /// The names of the columns, or their numbers if the file has no names.
    pub names: Vec<String>,
    /// The numbers, `[rows, columns]`.
    pub values: Array,
    /// The class of each row, `[rows]` of i64.
    pub labels: Array,
    /// The words of the classes; empty with [`Classes::Numbers`].
    pub classes: Vec<String>,
}

impl Csv {
    /// Creates a description of a file with a header, comma-separated cells, and numbers read as
    /// f32.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            header: true,
            delimiter: b',',
            columns: None,
            double: false,
        }
    }

    /// Reads the first line as data instead of a header.
    #[must_use]
    pub fn no_header(mut self) -> Self {
        self.header = false;
        self
    }

    /// Sets the byte between cells, such as `b';'` or `b'\t'`. Defaults to a comma.
    #[must_use]
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// Sets the columns of numbers, by name or number, in this order. Defaults to all except that
    /// of the labels.
    #[must_use]
    pub fn columns<C: Into<Column>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Reads numbers as f64. Defaults to f32.
    #[must_use]
    pub fn double(mut self) -> Self {
        self.double = true;
        self
    }

    /// Reads the numbers.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or lacks a column, or a cell is missing or is
    /// not a number; the error names file, line and column.
    pub fn read(&self) -> Result<Table, DataError> {
        let (mut reader, header) = self.open()?;
        let columns = self.chosen(&header, None)?;
        let mut values = Vec::new();
        let mut rows = 0;
        self.each_row(&mut reader, |row| {
            rows += 1;
            self.numbers(row, &columns, &header, &mut values)
        })?;
        Ok(Table {
            names: names(&columns, &header),
            values: self.array(values, [rows, columns.len()]),
        })
    }

    /// Reads the numbers, and the classes from another column.
    ///
    /// # Errors
    /// Returns an error as [`Csv::read`] does; also if a label is missing, or is not a whole number
    /// where it has to be.
    pub fn labeled(
        &self,
        label: impl Into<Column>,
        classes: Classes,
    ) -> Result<LabeledTable, DataError> {
        let (mut reader, header) = self.open()?;
        let label = self.find(&label.into(), &header)?;
        let columns = self.chosen(&header, Some(label))?;
        let (mut values, mut labels, mut words) = (Vec::new(), Vec::new(), IndexSet::new());
        self.each_row(&mut reader, |row| {
            self.numbers(row, &columns, &header, &mut values)?;
            let cell = self.cell(row, label, &header)?;
            labels.push(match classes {
                Classes::Numbers => cell.parse::<i64>().map_err(|_| {
                    self.wrong(row, label, &header, format!("`{cell}` is no whole number"))
                })?,
                Classes::Sorted | Classes::AsSeen => match words.get_index_of(cell) {
                    Some(class) => class as i64,
                    None => words.insert_full(cell.to_owned()).0 as i64,
                },
            });
            Ok(())
        })?;
        if classes == Classes::Sorted {
            let sorted: BTreeSet<&String> = words.iter().collect();
            let sorted: IndexSet<String> = sorted.into_iter().cloned().collect();
            for label in &mut labels {
                let place = sorted.get_index_of(&words[*label as usize]);
                *label = place.expect("the words are the same") as i64;
            }
            words = sorted;
        }
        Ok(LabeledTable {
            names: names(&columns, &header),
            values: self.array(values, [labels.len(), columns.len()]),
            labels: Array::from(labels),
            classes: words.into_iter().collect(),
        })
    }

    /// Opens the file and returns it with the names of its columns (their numbers if it has none).
    fn open(&self) -> Result<(Reader<File>, Vec<String>), DataError> {
        let reader = self.builder().from_path(&self.file);
        let mut reader = reader.map_err(|error| self.error(error))?;
        // Without a header, these are the cells of the first row, which the reader returns again.
        let first = reader.headers().map_err(|error| self.error(error))?;
        let header = match self.header {
            true => first.iter().map(|name| name.trim().to_owned()).collect(),
            false => (0..first.len()).map(|number| number.to_string()).collect(),
        };
        Ok((reader, header))
    }

    fn each_row(
        &self,
        reader: &mut Reader<File>,
        mut f: impl FnMut(&StringRecord) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let headers = reader.headers().map_err(|error| self.error(error))?;
        let (mut row, mut last) = (StringRecord::new(), headers.clone());
        while reader
            .read_record(&mut row)
            .map_err(|error| self.error(error))?
        {
            f(&row)?;
            std::mem::swap(&mut row, &mut last);
        }
        match last.position() {
            Some(position) if self.is_open(&last, position)? => {
                let line = self.line(position);
                let what = format!("a quote that begins in line {line} or after it is not closed");
                Err(DataError::format(&self.file, what))
            }
            _ => Ok(()),
        }
    }

    fn builder(&self) -> ReaderBuilder {
        let mut builder = ReaderBuilder::new();
        builder.has_headers(self.header).delimiter(self.delimiter);
        builder
    }

    /// Whether a quote in the last row is not closed: then what comes behind the file would be a part of it.
    fn is_open(&self, last: &StringRecord, position: &Position) -> Result<bool, DataError> {
        let behind = || {
            let mut file = File::open(&self.file)?;
            file.seek(SeekFrom::Start(position.byte()))?;
            io::Result::Ok(file.chain(&b"\nbehind\n"[..]))
        };
        let behind = behind().map_err(|error| DataError::io(&self.file, error))?;
        let mut reader = self.builder().has_headers(false).from_reader(behind);
        let mut row = StringRecord::new();
        reader
            .read_record(&mut row)
            .map_err(|error| self.error(error))?;
        Ok(row != *last)
    }

    fn find(&self, column: &Column, header: &[String]) -> Result<usize, DataError> {
        let found = match column {
            Column::Name(name) => header.iter().position(|other| other == name),
            Column::Number(number) => Some(*number).filter(|&number| number < header.len()),
        };
        found.ok_or_else(|| {
            let what = format!("there is no column {column}, only {}", header.join(", "));
            DataError::format(&self.file, what)
        })
    }

    fn chosen(&self, header: &[String], label: Option<usize>) -> Result<Vec<usize>, DataError> {
        match &self.columns {
            Some(columns) => columns
                .iter()
                .map(|column| self.find(column, header))
                .collect(),
            None => Ok((0..header.len())
                .filter(|&column| Some(column) != label)
                .collect()),
        }
    }

    fn cell<'a>(
        &self,
        row: &'a StringRecord,
        column: usize,
        header: &[String],
    ) -> Result<&'a str, DataError> {
        match row.get(column).map(str::trim) {
            Some(cell) if !cell.is_empty() => Ok(cell),
            _ => Err(self.wrong(row, column, header, "the cell is empty".to_owned())),
        }
    }

    fn numbers(
        &self,
        row: &StringRecord,
        columns: &[usize],
        header: &[String],
        values: &mut Vec<f64>,
    ) -> Result<(), DataError> {
        for &column in columns {
            let cell = self.cell(row, column, header)?;
            // Parsed directly as f32: going through f64 would round twice.
            let value = match self.double {
                true => cell.parse::<f64>(),
                false => cell.parse::<f32>().map(f64::from),
            };
            let wrong = |what| self.wrong(row, column, header, format!("`{cell}` is {what}"));
            let value = value.map_err(|_| wrong("no number".to_owned()))?;
            if value.is_infinite() && cell.contains(|c: char| c.is_ascii_digit()) {
                let dtype = if self.double { DType::F64 } else { DType::F32 };
                return Err(wrong(format!("larger than {dtype} can be")));
            }
            values.push(value);
        }
        Ok(())
    }

    fn array(&self, values: Vec<f64>, shape: [usize; 2]) -> Array {
        match self.double {
            true => Array::from_vec(values, shape),
            false => {
                let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
                Array::from_vec(values, shape)
            }
        }
    }

    fn wrong(
        &self,
        row: &StringRecord,
        column: usize,
        header: &[String],
        what: String,
    ) -> DataError {
        DataError::Cell {
            file: self.file.clone(),
            line: row.position().map_or(0, |position| self.line(position)),
            column: header[column].clone(),
            what,
        }
    }

    /// Returns the line at which a row begins. The reader reports where it began to look for the
    /// row, and empty lines may come first.
    fn line(&self, position: &Position) -> u64 {
        let skipped = || {
            let mut file = BufReader::new(File::open(&self.file)?);
            file.seek(SeekFrom::Start(position.byte()))?;
            let mut lines = 0;
            for byte in file.bytes() {
                match byte? {
                    b'\n' => lines += 1,
                    b'\r' => {}
                    _ => break,
                }
            }
            io::Result::Ok(lines)
        };
        position.line() + skipped().unwrap_or(0)
    }

    fn error(&self, error: csv::Error) -> DataError {
        let line = error.position().map_or(0, |position| self.line(position));
        let what = match error.kind() {
            ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => {
                format!("line {line} has {len} cells, expected {expected_len}")
            }
            ErrorKind::Utf8 { .. } => format!("line {line} is no UTF-8"),
            _ => error.to_string(),
        };
        match error.into_kind() {
            ErrorKind::Io(source) => DataError::io(&self.file, source),
            _ => DataError::format(&self.file, what),
        }
    }
}

fn names(columns: &[usize], header: &[String]) -> Vec<String> {
    columns
        .iter()
        .map(|&column| header[column].clone())
        .collect()
}

impl From<&str> for Column {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<String> for Column {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl From<usize> for Column {
    fn from(number: usize) -> Self {
        Self::Number(number)
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "`{name}`"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

/// An example is a row, `[columns]`.
impl Dataset for Table {
    type Example = Array;

    fn len(&self) -> usize {
        self.values.shape()[0]
    }

    fn example(&self, index: usize, random: &mut Generator) -> Result<Array, DataError> {
        self.values.example(index, random)
    }

    fn gathered(&self, indices: &[usize]) -> Option<Result<Batch<Self>, DataError>> {
        self.values.gathered(indices)
    }
}

/// An example is a row, `[columns]`, and its class.
impl Dataset for LabeledTable {
    type Example = (Array, i64);

    fn len(&self) -> usize {
        self.values.shape()[0]
    }

    fn example(&self, index: usize, random: &mut Generator) -> Result<(Array, i64), DataError> {
        let label = self.labels.example(index, random)?;
        Ok((self.values.example(index, random)?, label.item()))
    }

    fn gathered(&self, indices: &[usize]) -> Option<Result<Batch<Self>, DataError>> {
        let (values, labels) = (
            self.values.gathered(indices)?,
            self.labels.gathered(indices)?,
        );
        let both = || Ok((values?, labels?));
        Some(both())
    }
}
