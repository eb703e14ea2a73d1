//! Lists whose places have numbers of a type of their own: a channel's number does not find a path.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use terahaul_wire::packet::ChannelNumber;

/// Which of a session's network paths, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathIndex(pub usize);

/// A number that says where in a list something is.
pub(crate) trait Place: Copy {
    fn of(at: usize) -> Self;
    fn at(self) -> usize;
}

impl Place for PathIndex {
    fn of(at: usize) -> Self {
        Self(at)
    }

    fn at(self) -> usize {
        self.0
    }
}

impl Place for ChannelNumber {
    /// No session has more channels than fit (`MAX_UDP_CHANNELS`).
    fn of(at: usize) -> Self {
        Self(at as u8)
    }

    fn at(self) -> usize {
        self.0.into()
    }
}

/// Values by number.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<P, T> {
    values: Vec<T>,
    place: PhantomData<P>,
}

impl<P: Place, T> Numbered<P, T> {
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn get(&self, place: P) -> Option<&T> {
        self.values.get(place.at())
    }

    pub(crate) fn get_mut(&mut self, place: P) -> Option<&mut T> {
        self.values.get_mut(place.at())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut()
    }

    /// The numbers. They do not borrow the list, which may change meanwhile but for its length.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = P> + use<P, T> {
        (0..self.values.len()).map(P::of)
    }

    /// All numbers once, those behind `last` first and itself at the end: who takes turns.
    pub(crate) fn numbers_after(&self, last: P) -> impl Iterator<Item = P> + use<P, T> {
        let count = self.values.len();
        (1..=count).map(move |step| P::of((last.at() + step) % count))
    }

    /// Each value with its number.
    pub(crate) fn enumerate(&self) -> impl Iterator<Item = (P, &T)> {
        self.numbers().zip(&self.values)
    }

    pub(crate) fn into_enumerated(self) -> impl Iterator<Item = (P, T)> {
        self.numbers().zip(self.values)
    }

    pub(crate) fn enumerate_mut(&mut self) -> impl Iterator<Item = (P, &mut T)> {
        self.numbers().zip(&mut self.values)
    }
}

impl<P, T> FromIterator<T> for Numbered<P, T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self { values: values.into_iter().collect(), place: PhantomData }
    }
}

impl<P: Place, T> Index<P> for Numbered<P, T> {
    type Output = T;
    #[inline]
    fn index(&self, place: P) -> &T {
        &self.values[place.at()]
    }
}

impl<P: Place, T> IndexMut<P> for Numbered<P, T> {
    #[inline]
    fn index_mut(&mut self, place: P) -> &mut T {
        &mut self.values[place.at()]
    }
}
