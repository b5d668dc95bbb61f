//! A recurrent network that reads in both directions labels each word of a sentence as a noun, a
//! verb, an adjective and so on, even where a word can be several of them.
//!
//! ```sh
//! cargo run --release --example sequence_labelling
//! ```
//!
//! Sentences come from a small grammar of English. Many of its words are ambiguous: *plants*, *walks*
//! and *watches* are nouns or verbs, *her* is a possessive or an object, and
//! "the old man the boats" is a sentence just as "the old man walks" is. Only the words around a word
//! decide which it is, sometimes the words after it. Sentences have different lengths: a batch is padded
//! to its longest, with the label -1 for the padding.
//!
//! In ten seconds it is right for more than 99 of 100 ambiguous words in sentences that it
//! has not seen. (Not for all: in "the old light walks like her", nobody can tell who walks.)

use std::collections::{BTreeMap, HashSet};

use bibun::array::{Array, Generator};
use bibun::datasets::{Collate, DataLoader, Padded, Sequence};
use bibun::functions::{accuracy, softmax_cross_entropy};
use bibun::links::{Chain, Embedding, Gru, Linear, Link};
use bibun::optimizers::Adam;
use bibun::training::{BoxError, Evaluator, PrintReport, ProgressBar, Step, Trainer, Until};
use bibun::{Variable, eval_mode, no_grad};
use clap::Parser;

/// Trains a network to find the part of speech of every word.
#[derive(Parser)]
struct Options {
    /// Sentences to learn from; half as many, none of them seen before, to test
    #[arg(long, default_value_t = 6000, value_parser = clap::value_parser!(u64).range(1..))]
    sentences: u64,
    /// How often to go through all sentences
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Seed of everything random: the same seed, the same result
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// What a word is in its sentence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Tag {
    Determiner,
    Adjective,
    Noun,
    Pronoun,
    Verb,
    Adverb,
    Preposition,
    Conjunction,
}
use Tag::*;

const TAGS: [Tag; 8] = [
    Determiner,
    Adjective,
    Noun,
    Pronoun,
    Verb,
    Adverb,
    Preposition,
    Conjunction,
];

/// A word in the form for one and in the form for several.
type Forms = [&'static str; 2];

const NOUNS: [Forms; 12] = [
    ["dog", "dogs"],
    ["child", "children"],
    ["boat", "boats"],
    ["house", "houses"],
    ["man", "men"],
    ["cook", "cooks"],
    ["fly", "flies"],
    ["light", "lights"],
    ["plant", "plants"],
    ["play", "plays"],
    ["walk", "walks"],
    ["watch", "watches"],
];
const VERBS: [Forms; 11] = [
    ["finds", "find"],
    ["sees", "see"],
    ["likes", "like"],
    ["mans", "man"],
    ["cooks", "cook"],
    ["flies", "fly"],
    ["lights", "light"],
    ["plants", "plant"],
    ["plays", "play"],
    ["walks", "walk"],
    ["watches", "watch"],
];
const ADJECTIVES: [&str; 6] = ["old", "young", "light", "fast", "green", "small"];
const DETERMINERS: [Forms; 4] = [
    ["the", "the"],
    ["a", "some"],
    ["this", "these"],
    ["her", "her"],
];
const SUBJECTS: [Forms; 2] = [["she", "they"], ["he", "we"]];
const OBJECTS: [Forms; 2] = [["her", "them"], ["him", "us"]];
const PREPOSITIONS: [&str; 3] = ["like", "near", "behind"];
const ADVERBS: [&str; 3] = ["fast", "often", "slowly"];
const CONJUNCTIONS: [&str; 2] = ["and", "while"];

type Sentence = Vec<(&'static str, Tag)>;

/// Writes sentences.
struct Writer {
    random: Generator,
    sentence: Sentence,
}

impl Writer {
    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.random.integers(0, list.len() as i64, ()).item::<i64>() as usize]
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.random.bernoulli(probability, ()).item()
    }

    fn add(&mut self, word: &'static str, tag: Tag) {
        self.sentence.push((word, tag));
    }

    /// A noun and what belongs to it, or a pronoun in its place.
    fn noun_phrase(&mut self, number: usize, pronouns: &[Forms]) {
        let several = number == 1;
        if self.chance(0.2) {
            let pronoun = self.one_of(pronouns)[number];
            return self.add(pronoun, Pronoun);
        }
        if several && self.chance(0.15) {
            // The old are people.
            let people = self.one_of(&["old", "young"]);
            self.add("the", Determiner);
            return self.add(people, Noun);
        }
        if !several || self.chance(0.6) {
            let determiner = self.one_of(&DETERMINERS)[number];
            self.add(determiner, Determiner);
        }
        while self.chance(0.3) {
            let adjective = self.one_of(&ADJECTIVES);
            self.add(adjective, Adjective);
        }
        let noun = self.one_of(&NOUNS)[number];
        self.add(noun, Noun);
    }

    fn clause(&mut self) {
        let number = self.one_of(&[0, 1]);
        self.noun_phrase(number, &SUBJECTS);
        let verb = self.one_of(&VERBS)[number];
        self.add(verb, Verb);
        if self.chance(0.6) {
            let number = self.one_of(&[0, 1]);
            self.noun_phrase(number, &OBJECTS);
        }
        if self.chance(0.3) {
            let adverb = self.one_of(&ADVERBS);
            self.add(adverb, Adverb);
        }
        if self.chance(0.3) {
            let preposition = self.one_of(&PREPOSITIONS);
            self.add(preposition, Preposition);
            let number = self.one_of(&[0, 1]);
            self.noun_phrase(number, &OBJECTS);
        }
    }

    fn sentence(&mut self) -> Sentence {
        self.clause();
        while self.chance(0.25) {
            let conjunction = self.one_of(&CONJUNCTIONS);
            self.add(conjunction, Conjunction);
            self.clause();
        }
        std::mem::take(&mut self.sentence)
    }
}

/// Words by number, and how often each was what.
struct Lexicon {
    numbers: BTreeMap<&'static str, i64>,
    counts: Vec<Counts>,
}

/// How often a word is each tag.
type Counts = [usize; TAGS.len()];

impl Lexicon {
    fn of(sentences: &[Sentence]) -> Self {
        let mut lexicon = Self {
            numbers: BTreeMap::new(),
            counts: Vec::new(),
        };
        for &(word, tag) in sentences.iter().flatten() {
            let next = lexicon.counts.len() as i64;
            let number = *lexicon.numbers.entry(word).or_insert(next);
            if number == next {
                lexicon.counts.push([0; TAGS.len()]);
            }
            lexicon.counts[number as usize][tag as usize] += 1;
        }
        lexicon
    }

    /// A sentence as numbers, and as labels.
    fn encode(&self, sentence: &Sentence) -> (Sequence, Sequence) {
        let words: Vec<i64> = sentence
            .iter()
            .map(|(word, _)| self.numbers[word])
            .collect();
        let tags: Vec<i64> = sentence.iter().map(|&(_, tag)| tag as i64).collect();
        (Sequence::new(words), Sequence::new(tags).padded_with(-1))
    }

    fn counts(&self, word: &str) -> &Counts {
        &self.counts[self.numbers[word] as usize]
    }

    /// What a word is most often.
    fn commonest(&self, word: &str) -> Tag {
        let counts = self.counts(word);
        let tags = (0..TAGS.len()).max_by_key(|&tag| counts[tag]);
        TAGS[tags.expect("there are tags")]
    }
}

fn is_ambiguous(counts: &Counts) -> bool {
    counts.iter().filter(|&&count| count > 0).count() > 1
}

/// Words as vectors, read in both directions, and from what was read at each word a score for each
/// tag.
#[derive(Chain)]
struct Tagger {
    embedding: Embedding,
    reader: Gru,
    scores: Linear,
}

impl Tagger {
    fn new(words: usize, g: &mut Generator) -> Self {
        Self {
            embedding: Embedding::new(words, 32, g),
            reader: Gru::builder(32, 32).bidirectional().build(g),
            scores: Linear::new(64, TAGS.len(), g),
        }
    }

    /// Scores `[sentence, tag, place]`.
    fn forward(&self, words: &Padded) -> Variable {
        let x = self.embedding.forward(&Variable::constant(&words.values));
        let (h, _) = self.reader.forward_lengths(&x, &words.lengths, None);
        self.scores.forward(&h).swapaxes(1, 2)
    }
}

fn main() -> Result<(), BoxError> {
    let options = Options::parse();
    let generator = Generator::new(options.seed);
    let mut writer = Writer {
        random: generator.split(0),
        sentence: Vec::new(),
    };
    let train: Vec<Sentence> = (0..options.sentences).map(|_| writer.sentence()).collect();
    let seen: HashSet<&Sentence> = train.iter().collect();
    let unseen = std::iter::repeat_with(|| writer.sentence());
    let lexicon = Lexicon::of(&train);
    let known = |sentence: &Sentence| {
        let mut words = sentence.iter();
        words.all(|(word, _)| lexicon.numbers.contains_key(word))
    };
    let test: Vec<Sentence> = unseen
        .filter(|sentence| known(sentence) && !seen.contains(sentence))
        .take(options.sentences.div_ceil(2) as usize)
        .collect();
    let encode = |sentences: &[Sentence]| -> Vec<(Sequence, Sequence)> {
        sentences
            .iter()
            .map(|sentence| lexicon.encode(sentence))
            .collect()
    };
    let model = Tagger::new(lexicon.numbers.len(), &mut generator.split(1));
    println!(
        "{} sentences to train, {} to test, {} words, {} parameters",
        train.len(),
        test.len(),
        lexicon.numbers.len(),
        model.parameter_count(),
    );

    let ambiguous: Vec<bool> = lexicon.counts.iter().map(is_ambiguous).collect();
    let ambiguous = Array::from(ambiguous);
    let loss = move |model: &Tagger, (words, tags): &(Padded, Padded), step: &mut Step<'_>| {
        let y = model.forward(words);
        let t = &tags.values;
        // A label of -1 counts neither here nor in the loss.
        let hard = ambiguous.take(&words.values, 0).where_(t, -1i64);
        for (name, t) in [("accuracy", t), ("ambiguous", &hard)] {
            let labels = t.greater_equal(0i64).sum(..).item::<i64>();
            step.report_weighted(name, accuracy(&y, t), labels as f64);
        }
        softmax_cross_entropy(y, t)
    };
    let batches = DataLoader::new(encode(&train), 32).shuffle(options.seed);
    let unseen = DataLoader::new(encode(&test), 500);
    let mut trainer = Trainer::new(model, batches, Adam::new(0.005), loss.clone())
        .until(Until::Epochs(options.epochs as f64))
        .stop_on_interrupt()
        .extend(Evaluator::new("test", unseen, loss))
        .extend(PrintReport::new([
            "epoch",
            "loss",
            "test/loss",
            "test/accuracy",
            "test/ambiguous",
            "elapsed_time",
        ]))
        .extend(ProgressBar::new());
    trainer.run()?;

    let garden_path: Sentence = vec![
        ("the", Determiner),
        ("old", Noun),
        ("man", Verb),
        ("the", Determiner),
        ("boats", Noun),
    ];
    println!("\nthree sentences; * where a word is not what it is most often");
    let sentences = test.iter().take(2).chain([&garden_path]);
    for sentence in sentences.filter(|sentence| known(sentence)) {
        show(sentence, trainer.model(), &lexicon)?;
    }

    let commonest = |only_ambiguous: bool| {
        let words = test.iter().flatten();
        let words = words.filter(|(word, _)| !only_ambiguous || is_ambiguous(lexicon.counts(word)));
        let right = words.map(|&(word, tag)| f64::from(lexicon.commonest(word) == tag));
        let (count, sum) = right.fold((0, 0.0), |(count, sum), right| (count + 1, sum + right));
        sum / f64::from(count)
    };
    let found = |name| trainer.log().last().and_then(|entry| entry.get(name));
    let (Some(all), Some(hard)) = (found("test/accuracy"), found("test/ambiguous")) else {
        return Ok(());
    };
    println!("accuracy on unseen sentences       all words   ambiguous words");
    println!(
        "  always a word's commonest tag       {:.4}            {:.4}",
        commonest(false),
        commonest(true)
    );
    println!("  the network                         {all:.4}            {hard:.4}");
    Ok(())
}

/// Prints a sentence with what the network takes its words for.
fn show(sentence: &Sentence, model: &Tagger, lexicon: &Lexicon) -> Result<(), BoxError> {
    let (words, _) = lexicon.encode(sentence);
    let words = Sequence::collate(vec![words])?;
    let y = eval_mode(|| no_grad(|| model.forward(&words)));
    for (&(word, tag), found) in sentence.iter().zip(y.argmax(1).to_vec::<i64>()) {
        let found = TAGS[found as usize];
        let star = if lexicon.commonest(word) == tag {
            ""
        } else {
            "*"
        };
        print!("{word}{star} {}", format!("{found:?}").to_lowercase());
        print!("{}", if found == tag { "  " } else { " (wrong!)  " });
    }
    println!();
    Ok(())
}
